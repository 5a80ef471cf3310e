"""Fails where the committed openapi.yaml is not what the code would write.

``python -m monkeytree.service.openapi`` prints the document; ``openapi.yaml`` is the copy that is
committed.
"""

from __future__ import annotations

import difflib
import subprocess
import sys
from pathlib import Path

COMMITTED = Path(__file__).parent.parent / "openapi.yaml"
COMMAND = [sys.executable, "-m", "monkeytree.service.openapi"]


def main() -> int:
    """Compare, print the differences, return the exit code."""
    written = subprocess.run(COMMAND, check=True, stdout=subprocess.PIPE, text=True).stdout
    committed = COMMITTED.read_text(encoding="utf-8")
    if written == committed:
        return 0
    sys.stdout.writelines(
        difflib.unified_diff(
            committed.splitlines(keepends=True), written.splitlines(keepends=True), "committed", "generated"
        )
    )
    print(f"\nopenapi: {COMMITTED} is not in step; write it anew and commit it", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main())
