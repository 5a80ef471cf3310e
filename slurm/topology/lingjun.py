"""The Alibaba Lingjun dataset 2023: topo.csv, worker.csv, job.csv (Cao et al., SIGCOMM 2024).

topo.csv has one host a row, ``ip,DSW,PSW,ASW``. ASW labels (S1, S2, ...) repeat in every PSW, so the key of
a rack is (PSW, ASW). worker.csv has one worker a row (job_name, replica_type, host_ip, gmt_created,
gmt_pod_finished, RES), job.csv one job (job_name, kind, model, status).
"""

from __future__ import annotations

import ast
import csv
import io
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime

from ..errors import refuse_topology
from .model import Topology

LEVELS = ("PSW", "ASW")
GPU = "nvidia.com/gpu"
_TIME = "%Y/%m/%d %H:%M"


@dataclass(frozen=True, slots=True)
class Worker:
    """A worker of a job: where and when it ran, and on how many GPUs."""

    job: str
    host: str
    gpus: int
    started: datetime
    ended: datetime | None


def read_topo(text: str, source: str = "topo.csv") -> Topology:
    """Racks (PSW, ASW) below PSWs.

    Raises:
        InvalidTopology: with line and column.
    """
    nodes: dict[str, dict[str, str]] = {}
    for line, row in _rows(text, ("ip", "DSW", "PSW", "ASW"), source):
        host = _given(row, "ip", line, source)
        if host in nodes:
            raise refuse_topology(f"{source} line {line}, ip", "stands in another row already", host)
        nodes[host] = {key: _given(row, key, line, source) for key in ("DSW", "PSW", "ASW")}
    if not nodes:
        raise refuse_topology(source, "lists no host")
    return Topology(source, ("DSW", "PSW", "ASW"), nodes, LEVELS, qualify=True)


def read_workers(text: str, source: str = "worker.csv") -> tuple[Worker, ...]:
    """The workers that used GPUs; others (RES empty, or without GPUs) are left out.

    Raises:
        InvalidTopology: with line and column.
    """
    workers = []
    columns = ("job_name", "host_ip", "gmt_created", "gmt_pod_finished", "RES")
    for line, row in _rows(text, columns, source):
        gpus = _gpus(row["RES"], line, source)
        if not gpus or not row["host_ip"] or not row["gmt_created"]:
            continue
        started = _time(row["gmt_created"], line, "gmt_created", source)
        ended = row["gmt_pod_finished"]
        workers.append(
            Worker(
                job=_given(row, "job_name", line, source),
                host=row["host_ip"],
                gpus=gpus,
                started=started,
                ended=_time(ended, line, "gmt_pod_finished", source) if ended else None,
            )
        )
    return tuple(workers)


def read_jobs(text: str, source: str = "job.csv") -> dict[str, Mapping[str, str]]:
    """Labels of each job by name: kind, model, status.

    Raises:
        InvalidTopology: with line and column.
    """
    columns = ("job_name", "kind", "model", "status")
    return {
        _given(row, "job_name", line, source): {key: row[key] for key in columns[1:] if row[key]}
        for line, row in _rows(text, columns, source)
    }


def _rows(text: str, columns: tuple[str, ...], source: str) -> Iterator[tuple[int, dict[str, str]]]:
    reader = csv.DictReader(io.StringIO(text.removeprefix("\ufeff")), strict=True)
    names = reader.fieldnames or ()
    missing = [column for column in columns if column not in names]
    if missing:
        raise refuse_topology(f"{source} line 1", f"has no column {missing[0]}", ",".join(map(str, names)))
    try:
        for row in reader:
            short = [column for column in columns if row[column] is None]
            if short:
                raise refuse_topology(f"{source} line {reader.line_num}, {short[0]}", "is cut off", row)
            yield reader.line_num, row
    except csv.Error as error:
        raise refuse_topology(f"{source} line {reader.line_num}", f"is no CSV: {error}") from None


def _given(row: Mapping[str, str], column: str, line: int, source: str) -> str:
    if not row[column]:
        raise refuse_topology(f"{source} line {line}, {column}", "is empty", "")
    return row[column]


def _gpus(text: str, line: int, source: str) -> int:
    """GPUs of ``{'cpu': '96', 'nvidia.com/gpu': '8'}``."""
    if not text:
        return 0
    try:
        resources = ast.literal_eval(text)
        return int(resources.get(GPU, 0))
    except (ValueError, SyntaxError, AttributeError, TypeError, RecursionError, MemoryError):
        raise refuse_topology(f"{source} line {line}, RES", "is no dictionary of resources", text) from None


def _time(text: str, line: int, column: str, source: str) -> datetime:
    try:
        return datetime.strptime(text, _TIME)
    except ValueError:
        raise refuse_topology(
            f"{source} line {line}, {column}", "is no time such as 2023/7/15 00:47", text
        ) from None


def placement_at(workers: Iterable[Worker], when: datetime) -> dict[str, tuple[Worker, ...]]:
    """The workers of each job that ran at ``when``, by job name, in the order of the file."""
    running: dict[str, list[Worker]] = {}
    for worker in workers:
        if worker.started <= when and (worker.ended is None or when < worker.ended):
            running.setdefault(worker.job, []).append(worker)
    return {job: tuple(placed) for job, placed in running.items()}
