"""``python -m monkeytree.agent.shim --out DIR``: build the shim on the machine it is to run on."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from .build import BuildError, build, installed_library


def main(arguments: list[str] | None = None) -> int:
    """Build and name the library made. Exit code 0, or 1 with the reason on standard error."""
    parser = argparse.ArgumentParser(prog="python -m monkeytree.agent.shim", description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory to build into")
    parser.add_argument(
        "--real", type=Path, help="the libibverbs.so.1 to stand in for (default: the machine's own)"
    )
    parser.add_argument("--cc", default="gcc", help="the C compiler (default: gcc)")
    options = parser.parse_args(arguments)
    try:
        made = build(options.out, options.real, compiler=options.cc)
    except BuildError as error:
        sys.stderr.write(f"monkeytree: {error}\n")
        return 1
    real = options.real or installed_library() or "rdma-core 44.0 (no libibverbs.so.1 on this machine)"
    sys.stdout.write(f"{made}: stands in for {real}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
