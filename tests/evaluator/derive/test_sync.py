"""Bringing sessions up to date: in steps, each a transaction, and each session once however it is spread."""

from __future__ import annotations

from pathlib import Path

import pytest

from spangrade.evaluator.derive import load, stale, update
from spangrade.evaluator.derive.sync import read_again
from spangrade.evaluator.derive.sync import update as sync
from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

SESSIONS, TURNS = 4, 3
STEPS = 8  # four slices of three traces, and then each session


def interleaved() -> list[Span]:
    """Return the traces of some sessions in turn, each of an agent and a tool."""
    spans = []
    for turn in range(TURNS):
        for session in range(SESSIONS):
            trace = f"{turn * SESSIONS + session + 1:032x}"
            attributes = {"gen_ai.conversation.id": f"s{session}", "gen_ai.agent.name": "a"}
            agent = attributes | {"gen_ai.operation.name": "invoke_agent"}
            tool = attributes | {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": f"t{turn}"}
            start = turn * 10
            root = Span(trace, f"{1:016x}", None, "invoke_agent a", "INTERNAL", start, start + 5)
            inner = Span(trace, f"{2:016x}", root.span_id, "execute_tool", "INTERNAL", start + 1, start + 2)
            spans += [root._replace(attributes=agent), inner._replace(attributes=tool)]
    return spans


def whole(path: Path) -> list[Session]:
    with Store.open(path) as store:
        store.add(interleaved())
        assert update(store) == SESSIONS
        return list(load(store))


@pytest.fixture(scope="module")
def in_one_slice(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, ...]:
    return tuple(whole(tmp_path_factory.mktemp("whole") / "s.duckdb"))


@pytest.fixture
def small_slices(in_one_slice: tuple[Session, ...], monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Make slices of three traces; return the sessions as they are derived in one."""
    monkeypatch.setattr(sync, "SLICE", 6)
    monkeypatch.setattr(read_again, "READ_AGAIN", 2 * TURNS)
    return list(in_one_slice)


def test_sessions_that_span_slices_are_derived_once_more_at_the_end(
    small_slices: list[Session], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        steps = list(sync.steps(store))
        assert list(load(store)) == small_slices
    first = [{"s0", "s1", "s2"}, {"s3"}]  # as far as these slices show
    assert steps == [*first, *[set()] * 2, *({f"s{number}"} for number in range(SESSIONS))]
    assert len(steps) == STEPS


@pytest.mark.parametrize("stop_after", range(STEPS))
def test_derivation_that_is_interrupted_continues_where_it_stopped(
    stop_after: int, small_slices: list[Session], tmp_path: Path
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.add(interleaved())
        for _, _ in zip(range(stop_after), sync.steps(store), strict=False):
            pass
    with Store.open(path) as store:
        assert stale(store)
        rest = list(sync.steps(store))
        assert len(rest) == STEPS - stop_after
        assert not stale(store)
        assert list(load(store)) == small_slices
        assert update(store) == 0


def test_a_trace_that_grows_while_derivation_is_interrupted_is_complete(
    small_slices: list[Session], tmp_path: Path
) -> None:
    *early, late = interleaved()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(early)
        next(iter(sync.steps(store)))
        store.add([late])
        update(store)
        assert sorted(load(store), key=lambda s: s.session_id) == small_slices


def test_what_is_left_is_new_spans_which_may_be_read_twice_and_those_of_sessions_to_be_read_again(
    tmp_path: Path,
) -> None:
    spans = interleaved()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(spans[:16])  # two turns of each session
        update(store)
        store.add(spans[16:18])  # the third turn of one
        (derived,) = sync.derive_new(store)
        assert derived == set()
        store.add(spans[18:20])  # and of another
        assert sync.records_left(store) == 6 + 2 * 2
