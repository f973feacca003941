"""Traces that record the same model calls: which of them repeats which."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from spangrade.evaluator.derive.sync.link_traces import KeyedCall, Member, leaders_of

CALL = KeyedCall("k", "own", 0, 100, "anthropic")
SAME = CALL._replace(scope="other")


def leaders(*traces: Sequence[KeyedCall], ids: Sequence[str | None] = ()) -> list[str | None]:
    """The leaders of the traces 0, 1, …, with these conversation ids."""
    members = {
        str(number): Member(number, (ids or [None] * len(traces))[number], False, frozenset(calls))
        for number, calls in enumerate(traces)
    }
    found = leaders_of(members)
    return [found[str(number)] for number in range(len(traces))]


@pytest.mark.parametrize(
    ("other", "same"),
    [
        (SAME, True),
        (SAME._replace(provider=None), True),
        (SAME._replace(start_ns=40, end_ns=60), True),
        (SAME._replace(start_ns=50, end_ns=150), True),
        (SAME._replace(start_ns=99, end_ns=151), True),
        (SAME._replace(start_ns=100, end_ns=151), False),
        (SAME._replace(start_ns=500, end_ns=600), False),
        (SAME._replace(provider="openai"), False),
        (SAME._replace(scope="own"), False),
        (SAME._replace(call_key="other"), False),
    ],
)
def test_calls_of_two_traces_are_the_same_by_id_time_and_provider(other: KeyedCall, same: bool) -> None:
    assert leaders([CALL], [other]) == [None, "0" if same else None]


def test_a_trace_with_a_conversation_leads_and_two_conversations_stay_apart() -> None:
    assert leaders([CALL], [SAME], ids=[None, "c"]) == ["1", None]
    assert leaders([CALL], [SAME], ids=["c", "c"]) == [None, None]
    assert leaders([CALL], [SAME], ids=["c", "d"]) == [None, None]


def test_a_call_is_compared_with_the_latest_hundred_of_its_id() -> None:
    """A broken instrumentation may give every call the same id: the work would grow with their square."""

    def others(count: int) -> list[list[KeyedCall]]:
        return [[SAME._replace(start_ns=1, provider=f"{number}")] for number in range(count)]

    last = [SAME._replace(start_ns=2)]
    assert leaders([CALL], *others(99), last)[-1] == "0"
    assert leaders([CALL], *others(100), last)[-1] is None
