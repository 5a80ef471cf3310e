"""Lines of ``Key=Value`` words: topology.conf and ``scontrol show topology`` alike."""

from __future__ import annotations

from dataclasses import dataclass

from ..errors import refuse_topology
from ..hostlist import BadHostlist, expand


@dataclass(frozen=True, slots=True)
class Record:
    """One line: its number and its values by lower-case key."""

    line: int
    values: dict[str, str]

    def hosts(self, key: str) -> tuple[str, ...]:
        """The hostlist under ``key``, expanded; () where it is not there.

        Raises:
            InvalidTopology: it is no hostlist.
        """
        try:
            return expand(self.values.get(key, ""))
        except BadHostlist as error:
            raise refuse_topology(self.at(key), str(error), self.values[key]) from None

    def at(self, key: str) -> str:
        """Where ``key`` of this record stands, for messages."""
        return f"line {self.line}, {key}"


def read_records(text: str) -> list[Record]:
    """The records of ``text``; comments and blank lines are passed over.

    A backslash at the end of a line continues it, as in slurm.conf.

    Raises:
        InvalidTopology: a word is no ``Key=Value``, or a key stands twice.
    """
    records: list[Record] = []
    held, first = "", 0
    for number, line in enumerate(text.splitlines(), 1):
        first = first if held else number
        held += line.partition("#")[0].rstrip()
        if held.endswith("\\"):
            held = held[:-1] + " "
            continue
        if held.strip():
            records.append(Record(first, _values(held, first)))
        held = ""
    if held.strip():
        raise refuse_topology(f"line {first}", "is continued with a backslash, and then the text ends", held)
    return records


def _values(line: str, number: int) -> dict[str, str]:
    values: dict[str, str] = {}
    for word in line.split():
        key, sign, value = word.partition("=")
        if not sign or not key:
            raise refuse_topology(f"line {number}", "is no Key=Value", word)
        if key.lower() in values:
            raise refuse_topology(f"line {number}, {key.lower()}", "stands twice", value)
        values[key.lower()] = value
    return values
