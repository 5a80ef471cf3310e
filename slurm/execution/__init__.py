"""Carries a plan out through Slurm (docs/slurm.md, docs/adr/0018-moves-through-slurm.md)."""
