"""What libibverbs exports: names with their versions, read from a library or from the list kept here."""

from __future__ import annotations

import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

MARK = "monkeytree_verbs_shim"  # exported by every shim, under no version of libibverbs
_SHIPPED = Path(__file__).with_name("symbols.txt")
_ROW = re.compile(
    r"^\s*\d+:\s+[0-9a-f]+\s+(?P<size>\d+|0x[0-9a-f]+)\s+(?P<kind>FUNC|OBJECT)\s+(?:GLOBAL|WEAK)\s+DEFAULT\s+\d+\s+"
    r"(?P<name>[A-Za-z_]\w*)(?P<at>@@?)(?P<version>[\w.]+)"
)
# Functions that answer with a pointer fail with NULL, all others with an errno value.
_POINTER = re.compile(
    r"^_?(ibv|verbs)_(open|alloc|create|reg|import|get_sysfs_path|get_device_(list|name)|qp_to_qp_ex|.*_str$|init_and_alloc)"
)


@dataclass(frozen=True, slots=True)
class Symbol:
    """One exported symbol.

    Attributes:
        version: its version node, such as ``IBVERBS_1.1``.
        default: what plain linking gets (``@@``); else it is for old programs alone (``@``).
        size: bytes of an exported variable; None for a function.
    """

    name: str
    version: str
    default: bool
    size: int | None = None

    @property
    def gives_pointer(self) -> bool:
        """Whether callers take NULL for failure."""
        return _POINTER.match(self.name) is not None

    @property
    def row(self) -> str:
        """Its line in the list kept here."""
        kind = "function" if self.size is None else f"object {self.size}"
        return f"{self.name} {self.version} {'default' if self.default else 'old'} {kind}"


def shipped() -> tuple[Symbol, ...]:
    """The symbols of rdma-core 44.0, for machines without the real library."""
    rows = (
        row.split() for row in _SHIPPED.read_text("ascii").splitlines() if row and not row.startswith("#")
    )
    return tuple(
        Symbol(name, version, default == "default", int(rest[0]) if rest else None)
        for name, version, default, _, *rest in rows
    )


def read_symbols(library: Path) -> tuple[Symbol, ...]:
    """What ``library`` exports under a version, in the order of names. Needs ``readelf`` (binutils).

    Raises:
        ValueError: it exports no function under an ``IBVERBS_`` version, or is a shim itself.
        OSError, subprocess.SubprocessError: readelf is not there, or does not take the file.
    """
    answer = subprocess.run(
        ["readelf", "--dyn-syms", "--wide", str(library)],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    found = {_symbol(match) for row in answer.stdout.splitlines() if (match := _ROW.match(row))}
    if any(one.name == MARK for one in found):
        raise ValueError(f"{library} is such a shim itself, not the library it stands in for")
    symbols = sorted(found, key=lambda one: (one.name, one.version))
    symbols = [one for one in symbols if one.version.startswith("IBVERBS_")]
    if not any(one.size is None for one in symbols):
        raise ValueError(f"{library} exports nothing under a version IBVERBS_...: it is no libibverbs")
    return tuple(symbols)


def _symbol(match: re.Match[str]) -> Symbol:
    size = int(match["size"], 0) if match["kind"] == "OBJECT" else None
    return Symbol(match["name"], match["version"], match["at"] == "@@", size)
