"""Tool calls that a streaming instrumentation joined are separated, or stay without a name."""

from __future__ import annotations

import pytest

from spangrade.converters.spans.joined_calls import split_calls

TOOLS = ("get_cart", "approve_discount", "get", "_cart")


def parts(call: dict[str, str], tools: tuple[str, ...] = TOOLS[:2]) -> list[tuple[object, ...]]:
    return [(one["id"], one["name"], one["arguments"]) for one in split_calls([call], lambda: tools)]


def test_ids_names_and_arguments_are_told_apart() -> None:
    call = {
        "id": "call_3call_4",
        "name": "approve_discountget_cart",
        "arguments": '{"value": 10} {"id": "}{"}',
    }
    assert parts(call) == [
        ("call_3", "approve_discount", '{"value": 10}'),
        ("call_4", "get_cart", '{"id": "}{"}'),
    ]


@pytest.mark.parametrize(
    ("joined", "ids"),
    [("call_1call_2", ("call_1", "call_2")), ("tool-1tool-2", ("tool-1", "tool-2")), ("12", (None, None))],
)
def test_ids_begin_alike_up_to_a_sign(joined: str, ids: tuple[object, ...]) -> None:
    call = {"id": joined, "name": "getget", "arguments": "{}{}"}
    assert parts(call, ("get",)) == [(one, "get", "{}") for one in ids]


@pytest.mark.parametrize("arguments", ['{"value": 10}', "", '{"text": "}{"}', "{}{", '{"a": 1}{"b'])
def test_one_call_and_what_cannot_be_read_stay_as_they_are(arguments: str) -> None:
    assert parts({"id": "c", "name": "n", "arguments": arguments}) == [("c", "n", arguments)]


def test_names_that_can_be_told_apart_in_two_ways_or_none_are_unknown() -> None:
    call = {"id": "a1", "name": "get_cartget_cart", "arguments": "{}{}{}"}
    assert parts(call, TOOLS) == [(None, None, "{}")] * 3
    assert parts(call | {"name": "other"}) == [(None, None, "{}")] * 3


def test_names_of_different_lengths_are_told_apart() -> None:
    call = {"id": "", "name": "getget_cart", "arguments": "{}{}"}
    assert parts(call, ("get", "get_cart")) == [(None, "get", "{}"), (None, "get_cart", "{}")]


def test_joined_names_of_more_than_2000_characters_are_unknown() -> None:
    def names(*tools: str) -> list[object]:
        return [name for _, name, _ in parts({"id": "", "name": "".join(tools), "arguments": "{}{}"}, tools)]

    longest, other = "a" * 1_500, "b" * 500
    assert names(longest, other) == [longest, other]
    assert names(longest, f"{other}b") == [None, None]
