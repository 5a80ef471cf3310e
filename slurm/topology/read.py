"""One door to all importers: a kind, or a guess at it, and the text."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from ..errors import refuse_topology
from ..yamls import NotYaml, load_yaml
from . import kubernetes, lingjun, lldp, slurm, topograph
from .model import Topology


def _json(text: str, source: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise refuse_topology(source, f"is not JSON: {error}", text[:40]) from None


def _yaml(text: str, source: str) -> Any:
    try:
        return load_yaml(text)
    except NotYaml as error:
        raise refuse_topology(source, f"is not YAML: {error}", text[:40]) from None


def _configmap(text: str, source: str) -> Topology:
    name, inner = topograph.configmap_text(_yaml(text, source))
    if name.endswith((".yaml", ".yml")):
        return slurm.read_yaml(_yaml(inner, f"{source}: {name}"), source)
    return slurm.read_conf(inner, source)


KINDS: Mapping[str, Callable[[str, str], Topology]] = {
    "slurm": slurm.read_conf,
    "slurm-yaml": lambda text, source: slurm.read_yaml(_yaml(text, source), source),
    "topograph-graph": lambda text, source: topograph.read_graph(_json(text, source), source),
    "topograph-model": lambda text, source: topograph.read_model(_yaml(text, source), source),
    "slinky": _configmap,
    "kubernetes": lambda text, source: kubernetes.read_nodes(_yaml(text, source), source),
    "lldp": lambda text, source: lldp.read_lldp(_hosts(_json(text, source), source), (), source),
    "lingjun": lingjun.read_topo,
}
"""How to read each kind: text and a name for messages in, topology out."""


def read_topology(
    text: str, kind: str | None = None, *, source: str = "topology", interfaces: Iterable[str] = ()
) -> Topology:
    """The topology in ``text``.

    Args:
        kind: one of :data:`KINDS`; by default it is told from the text.
        source: what to call it in messages, usually a file name.
        interfaces: for LLDP, those that count.

    Raises:
        InvalidTopology: naming line or member.
    """
    chosen = kind or guess(text, source)
    if chosen not in KINDS:
        raise refuse_topology("kind", f"is none of {', '.join(KINDS)}", chosen)
    if chosen == "lldp":
        return lldp.read_lldp(_hosts(_json(text, source), source), interfaces, source)
    return KINDS[chosen](text, source)


def read_topology_file(path: Path, kind: str | None = None, interfaces: Iterable[str] = ()) -> Topology:
    """The topology in a file, or, of a folder, the LLDP answers in it, one ``HOST.json`` each.

    Raises:
        InvalidTopology: naming line or member.
        OSError: it cannot be read.
    """
    if path.is_dir():
        files = sorted(path.glob("*.json"))
        documents = {file.stem: _json(_decode(file), file.name) for file in files}
        return lldp.read_lldp(documents, interfaces, str(path))
    return read_topology(_decode(path), kind, source=path.name, interfaces=interfaces)


def _decode(path: Path) -> str:
    try:
        return path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise refuse_topology(path.name, f"is not UTF-8 at byte {error.start}") from None


def guess(text: str, source: str) -> str:
    """The kind of ``text``.

    Raises:
        InvalidTopology: it is none of them.
    """
    start = text.lstrip("\ufeff \t\r\n")
    if start.startswith("ip,"):
        return "lingjun"
    words = [line.split("#")[0].strip().lower() for line in text.splitlines()]
    if any(word.startswith(("switchname=", "blockname=", "blocksizes=")) for word in words):
        return "slinky" if _is_configmap(text) else "slurm"
    document = _json(text, source) if start.startswith(("{", "[")) else _yaml(text, source)
    return _guess_document(document, source)


def _is_configmap(text: str) -> bool:
    return any(line.strip() == "kind: ConfigMap" for line in text.splitlines())


def _guess_document(document: Any, source: str) -> str:
    if isinstance(document, Mapping):
        for member, kind in (
            ("instances", "topograph-graph"),
            ("switches", "topograph-model"),
            ("items", "kubernetes"),
            ("data", "slinky"),
        ):
            if member in document:
                return kind
        if document and all(isinstance(value, Mapping) and "lldp" in value for value in document.values()):
            return "lldp"
    if isinstance(document, list) and document and isinstance(document[0], Mapping):
        return "slurm-yaml" if "topology" in document[0] else "kubernetes"
    kinds = ", ".join(KINDS)
    raise refuse_topology(
        source, f"is no topology that can be told; say which kind it is: {kinds}", str(document)[:40]
    )


def _hosts(document: Any, source: str) -> Mapping[str, Any]:
    """Answers by host: ``{"node001": {"lldp": [...]}, ...}``."""
    if not isinstance(document, Mapping) or "lldp" in document:
        raise refuse_topology(source, 'must map hosts to their answers: {"node001": {"lldp": ...}}', document)
    return {str(host): answer for host, answer in document.items()}
