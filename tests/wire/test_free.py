"""JSON that is handed through: what one writer took, every other one can write and read again."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from monkeytree.errors import InvalidDocument
from monkeytree.offence_log import show
from monkeytree.wire.agent_schemas import read_document
from monkeytree.wire.agents import Announcement, Command, MoveStatus, PauseRequest, dump
from monkeytree.wire.free import DEEPEST, MOST_BYTES

STATUS = {
    "id": "m", "epoch": 1, "job": "A", "group": "0", "rank": 0, "role": "destination", "state": "PREPARED",
    "version": 1,
}  # fmt: skip


def nested(levels: int) -> Any:
    value: Any = {}
    for _ in range(levels - 1):
        value = {"a": value}
    return value


def refused(model: type, document: Any) -> dict[str, str]:
    with pytest.raises(InvalidDocument) as caught:
        read_document(model, document if isinstance(document, bytes) else json.dumps(document).encode())
    orjson.dumps([offence.value for offence in caught.value.offences])  # the refusal itself can be told
    return {offence.pointer: offence.message for offence in caught.value.offences}


@pytest.mark.parametrize(
    ("value", "below", "says"),
    [
        (nested(DEEPEST + 1), "/a" * DEEPEST, "levels deep"),
        ({"a": [0, 2**70]}, "/a/1", "must be an integer"),
        ({"a": 2**64}, "/a", "must be an integer"),
        ({"a": -(2**63) - 1}, "/a", "must be an integer"),
        ({"a": "\ud800"}, "/a", "lone surrogate"),
        ({"a": {"\udfff": 1}}, "/a/\\udfff", "lone surrogate"),
        ({"a": "x" * MOST_BYTES}, "", "bytes of JSON"),
        ({"a": [0] * MOST_BYTES}, "", "bytes of JSON"),
        ({"a": "\n" * (MOST_BYTES - 100)}, "", "bytes of JSON"),
        ({"\x01" * (MOST_BYTES - 100): 1}, "", "bytes of JSON"),
    ],
)
def test_what_others_could_not_carry_is_refused_by_path(value: Any, below: str, says: str) -> None:
    said = {"node": "n1", "url": "http://n1:1", "epoch": 1, "capabilities": value}
    ((pointer, message),) = refused(Announcement, said).items()
    assert (pointer, says in message) == ("/capabilities" + below, True)


@pytest.mark.parametrize("number", [b"1e400", b"-1e400"])
def test_a_number_beyond_all_doubles_is_refused(number: bytes) -> None:
    document = b'{"epoch": 1, "descriptor": {"a": [%s]}}' % number
    assert refused(Command, document) == {"/descriptor/a/0": "must be a finite number"}


@pytest.mark.parametrize(
    ("changes", "pointer"),
    [
        ({"descriptor": {"key": 2**90}}, "/descriptor/key"),
        ({"figures": {"pause_s": "long"}}, "/figures/pause_s"),
        ({"figures": {"pause_s": 2**1100}}, "/figures/pause_s"),
        ({"error": {"code": ["x"], "message": "y"}}, "/error/code"),
        ({"error": {"code": "x", "message": "\ud800"}}, "/error/message"),
    ],
)
def test_all_that_agents_answer_is_bounded(changes: dict[str, Any], pointer: str) -> None:
    assert list(refused(MoveStatus, STATUS | changes)) == [pointer]


def test_names_of_groups_are_names() -> None:
    orders = {"epoch": 1, "job": "A", "members": [], "orders": {"\ud800": [0]}}
    assert list(refused(PauseRequest, orders)) == ["/orders/\\ud800"]


@example({"a": [2**64 - 1, -(2**63), 1.5, True, None, "\0\U0001f600"]})
@given(
    st.dictionaries(
        st.text(max_size=5),
        st.recursive(
            st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=5),
            lambda inner: (
                st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
            ),
            max_leaves=8,
        ),
        max_size=4,
    )
)
def test_what_is_taken_can_be_written_as_it_was(value: dict[str, Any]) -> None:
    try:
        read = read_document(Command, json.dumps({"epoch": 1, "descriptor": value}).encode())
    except InvalidDocument as error:
        orjson.dumps([offence.value for offence in error.offences])
        return
    assert orjson.loads(orjson.dumps(dump(read)))["descriptor"] == value


@pytest.mark.parametrize("number", [-(2**63) - 1, -(2**64) + 1, 2**64, 2**64 - 1, -(2**63)])
def test_offending_numbers_can_be_shown(number: int) -> None:
    orjson.dumps(show(number))
