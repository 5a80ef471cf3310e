"""Whatever comes in, a document loads or is refused with offences; nothing else happens."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from monkeytree.errors import InvalidDocument
from monkeytree.wire.plan import dump_plan, load_plan, parse_plan
from monkeytree.wire.snapshot import dump_snapshot, load_snapshot, parse_snapshot
from tests.wire.samples import good, sample_plan

quick = settings(max_examples=250, deadline=None, suppress_health_check=[HealthCheck.too_slow])

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.sampled_from([0, 1, -1, 2.0, 10**30, 1e308, "", "r1", "r1n1", "\ud800", "0"])
    | st.floats()
    | st.text(st.characters(), max_size=5)
)
words = st.sampled_from(
    ["id", "racks", "nodes", "jobs", "workers", "uplinks", "slots", "pods", "planes", "_schema"]
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=8,
)
odd = values | st.sampled_from([b"x", {1: 2}, {1, 2}, object(), (1, 2), 1j, {None: 3}])


def places(document: Any) -> list[tuple[Any, Any]]:
    """Every container of ``document`` with each key or index in it."""
    found: list[tuple[Any, Any]] = []
    steps = list(document) if isinstance(document, dict) else range(len(document))
    for step in steps:
        found.append((document, step))
        if isinstance(document[step], dict | list):
            found += places(document[step])
    return found


def mutate(
    draw: Callable[[st.SearchStrategy[Any]], Any], document: Any, junk: st.SearchStrategy[Any]
) -> None:
    """Set, drop, add or double something somewhere."""
    holder, step = draw(st.sampled_from(places(document)))
    new = copy.deepcopy(draw(junk))  # sampled objects are shared between examples
    action = draw(st.sampled_from(["set", "drop", "add", "double"]))
    if action == "set":
        holder[step] = new
    elif action == "drop":
        del holder[step]
    elif isinstance(holder, list):
        holder.insert(step, copy.deepcopy(holder[step]) if action == "double" else new)
    else:
        holder[draw(words | st.text(max_size=3))] = new


def refused_or_read(load: Callable[[Any], Any], source: Any) -> Any:
    """What ``load`` makes of ``source``; None where it refuses it, as it should."""
    try:
        return load(source)
    except InvalidDocument as error:
        refused = error
    assert refused.offences
    for offence in refused.offences:
        assert offence.pointer == "" or offence.pointer.startswith("/")
        json.dumps(offence.value, allow_nan=False)
        f"{offence.pointer} {offence.message} {offence.value} {refused}".encode()
    return None


@quick
@given(st.data())
def test_mutated_snapshots(data: st.DataObject) -> None:
    document = good()
    for _ in range(data.draw(st.integers(1, 4))):
        mutate(data.draw, document, odd)
    snapshot = refused_or_read(load_snapshot, document)
    if snapshot is not None:
        assert load_snapshot(dump_snapshot(snapshot)) == snapshot


@quick
@given(st.data())
def test_mutated_plans(data: st.DataObject) -> None:
    document = dump_plan(sample_plan())
    for _ in range(data.draw(st.integers(1, 3))):
        mutate(data.draw, document, odd)
    refused_or_read(load_plan, document)


@quick
@given(values)
def test_any_json(document: Any) -> None:
    text = json.dumps(document)
    for parse in (parse_snapshot, parse_plan):
        assert refused_or_read(parse, text) is None


@quick
@given(st.data())
def test_any_text(data: st.DataObject) -> None:
    raw = bytearray(json.dumps(good()).encode())
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3) | st.just(b'"a":NaN,'))
    refused_or_read(parse_snapshot, bytes(raw))


@pytest.mark.parametrize("depth", [50, 900, 5_000])
def test_deep_values_are_refused(depth: int) -> None:
    deep: Any = 1
    for level in range(depth):
        deep = [deep] if level % 2 else {"a": deep}
    for member in ("labels", "fabric", "racks", "jobs", "planning", "x"):
        assert refused_or_read(load_snapshot, {**good(), member: deep}) is None
