"""Traces of jobs in files: the artifact's format, or a user's own CSV or JSON.

The artifact's format: a first line with the number of jobs, then a line each, ``arrival_us type gpus
iterations``.
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from .mix import GPUS_PER_BLOCK, JobType
from .traces import BadTrace, TraceJob, size_fault

_NAMES = ("arrival_us", "type", "gpus", "iterations")
_ALSO = {"type": "job_type", "gpus": "num_workers", "iterations": "num_iterations"}
"""What the artifact calls them; understood as well."""
_TOLD = 10
"""Bad jobs that a message names; more are counted."""
_LATEST_US, _MOST = 10**15, 10**9
"""Bounds of arrivals and of all counts, far above any real trace: what is beyond is a slip."""


def write_trace(path: Path, trace: Sequence[TraceJob]) -> None:
    """Write the artifact's format.

    Raises:
        BadTrace: a job has a type of its own, which that format cannot tell.
    """
    path.write_text(trace_text(trace), encoding="utf-8")


def trace_text(trace: Sequence[TraceJob]) -> str:
    """The artifact's format; raises as :func:`write_trace`."""
    for job in trace:
        if job.own is not None:
            raise BadTrace(f"type {job.type!r} is told by the trace itself; the artifact's format cannot")
    lines = [str(len(trace))]
    lines += [f"{job.arrival_us} {job.type} {job.gpus} {job.iterations}" for job in trace]
    return "\n".join(lines) + "\n"


def read_trace(path: Path, mix: Mapping[str, JobType]) -> tuple[TraceJob, ...]:
    """A trace in the artifact's format, or by its name's end a CSV (with a header) or a JSON list.

    CSV columns and JSON members: ``arrival_us`` (or ``arrival_s``), ``type``, ``gpus``, ``iterations``, or
    the artifact's names of these (``job_type``, ``num_workers``, ``num_iterations``). A job that also says
    ``compute_s`` and ``sync_gb`` (and ``rings``, 1 or 8) has a type of its own: that computes, then
    all-reduces so many 10^9 bytes over all its GPUs, or with 8 rings over the GPUs of each rank.

    Raises:
        BadTrace: no job, an unknown type, a size that is not whole servers, or what does not parse; the
            message names each bad job, counted from 1.
        OSError: the file cannot be read.
    """
    suffix = path.suffix.lower()
    return parse_trace(path.read_bytes(), {".json": "json", ".csv": "csv"}.get(suffix, "text"), mix)


def form_of(content: bytes) -> str:
    """``json``, ``csv`` or ``text``: of a trace that has no name, by how it begins."""
    start = content.removeprefix(b"\xef\xbb\xbf").lstrip()
    if start[:1] in (b"[", b"{"):
        return "json"
    return "csv" if b"," in start.split(b"\n", 1)[0] else "text"


def parse_trace(content: bytes, form: str, mix: Mapping[str, JobType]) -> tuple[TraceJob, ...]:
    """The jobs of a trace by arrival; ``form`` as of :func:`form_of`. Raises as :func:`read_trace`."""
    try:
        text = content.decode("utf-8-sig")  # spreadsheets write a byte order mark
    except UnicodeDecodeError as error:
        raise BadTrace(f"a trace is UTF-8 text, and this is not at byte {error.start}") from None
    rows = {"json": _json_rows, "csv": _csv_rows, "text": _plain_rows}[form](text)
    trace, faults = [], []
    for number, row in enumerate(rows, start=1):
        try:
            trace.append(_job(row, mix))
        except BadTrace as error:
            faults.append(f"job {number}: {error}")
    if faults:
        more = [f"and {len(faults) - _TOLD} more jobs"] if len(faults) > _TOLD else []
        raise BadTrace("\n  ".join([*faults[:_TOLD], *more]))
    if not trace:
        raise BadTrace("the trace has no job")
    return tuple(sorted(trace, key=lambda job: job.arrival_us))


def _json_rows(text: str) -> list[Any]:
    try:
        rows = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadTrace(f"not JSON: {error}") from None
    if not isinstance(rows, list):
        raise BadTrace("a JSON trace is a list of jobs")
    return rows


def _csv_rows(text: str) -> list[dict[Any, Any]]:
    try:
        reader = csv.DictReader(io.StringIO(text, newline=""), skipinitialspace=True)
        header = [name.strip() for name in reader.fieldnames or ()]
        reader.fieldnames = header
        rows = list(reader)
    except csv.Error as error:
        raise BadTrace(f"not CSV: {error}") from None
    lacking = [name for name in _NAMES if name not in header and _ALSO.get(name) not in header]
    if "arrival_s" in header and "arrival_us" in lacking:
        lacking.remove("arrival_us")
    if lacking:
        raise BadTrace(f"the first line of a CSV trace names its columns; it lacks {', '.join(lacking)}")
    return rows


def _plain_rows(text: str) -> list[dict[str, str]]:
    lines = [line.split() for line in text.splitlines() if line.strip()]
    if not lines or len(lines[0]) != 1 or not (lines[0][0].isascii() and lines[0][0].isdigit()):
        raise BadTrace("the first line must be the number of jobs")
    if lines[0][0].lstrip("0") != (str(len(lines) - 1) if lines[1:] else ""):
        raise BadTrace(f"the first line says {lines[0][0]:.20} jobs, but {len(lines) - 1} lines follow")
    for number, line in enumerate(lines[1:], start=2):
        if len(line) != len(_NAMES):
            raise BadTrace(
                f"line {number}: expected `arrival_us type gpus iterations`, got {' '.join(line)[:200]!r}"
            )
    return [dict(zip(_NAMES, line, strict=True)) for line in lines[1:]]


def _job(row: Any, mix: Mapping[str, JobType]) -> TraceJob:
    if not isinstance(row, Mapping):
        raise BadTrace(f"a job is an object with {', '.join(_NAMES)}, not {_shown(row)}")
    if None in row:  # csv.DictReader keeps there what no column names
        raise BadTrace(f"more values than columns: {_shown(row[None])}")
    row = {**row, **{name: row[also] for name, also in _ALSO.items() if also in row and name not in row}}
    seconds = not _says(row, "arrival_us") and _says(row, "arrival_s")
    arrival = _number(row, "arrival_s" if seconds else "arrival_us", 0, _LATEST_US / (1e6 if seconds else 1))
    name = row.get("type")
    if not isinstance(name, str) or not name.strip():
        raise BadTrace(f"`type` must be the name of a job type, not {_shown(name)}")
    gpus, iterations = _whole(row, "gpus", 1, _MOST), _whole(row, "iterations", 1, _MOST)
    own = _own_type(row, name.strip(), gpus)
    job = TraceJob(int(arrival * (1e6 if seconds else 1)), name.strip(), gpus, iterations, own)
    kind = own or mix.get(job.type)
    if kind is None:
        raise BadTrace(
            f"unknown type {job.type!r}; known: {', '.join(mix)} "
            "(or say its compute_s and sync_gb, in CSV or JSON)"
        )
    fault = size_fault(kind, gpus)
    if fault is not None:
        raise BadTrace(fault)
    return job


def _own_type(row: Mapping[Any, Any], name: str, gpus: int) -> JobType | None:
    if not any(_says(row, member) for member in ("compute_s", "sync_gb", "rings")):
        return None
    compute_us = round(_number(row, "compute_s", 1e-6, _MOST) * 1e6)
    sync_bytes = round(_number(row, "sync_gb", 1e-9, _MOST) * 1e9)
    rings = _whole(row, "rings", 1, GPUS_PER_BLOCK) if _says(row, "rings") else 1
    if rings not in (1, GPUS_PER_BLOCK):
        raise BadTrace(f"`rings` must be 1 or {GPUS_PER_BLOCK}, not {rings}")
    return JobType(name, "data" if rings == 1 else "tensor", 1, (gpus,), compute_us, sync_bytes)


def _says(row: Mapping[Any, Any], member: str) -> bool:
    return row.get(member) not in (None, "")


def _number(row: Mapping[Any, Any], member: str, least: float, most: float) -> float:
    given = row.get(member)
    if not _says(row, member):
        raise BadTrace(f"`{member}` is missing")
    try:
        if isinstance(given, bool) or not isinstance(given, int | float | str):
            raise ValueError
        number = float(given)
    except (ValueError, OverflowError):
        number = math.nan
    if not least <= number <= most:  # NaN neither
        raise BadTrace(f"`{member}` must be a number from {least:g} to {most:,.0f}, not {_shown(given)}")
    return number


def _whole(row: Mapping[Any, Any], member: str, least: int, most: int) -> int:
    number = _number(row, member, least, most)
    if number != int(number):
        raise BadTrace(f"`{member}` must be a whole number, not {_shown(row[member])}")
    return int(number)


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:80]}..."
