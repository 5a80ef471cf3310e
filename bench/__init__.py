"""The figures: what planning costs, beside what it is measured against (docs/bench.md)."""
