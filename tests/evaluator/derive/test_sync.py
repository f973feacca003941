"""Bringing sessions up to date: in steps, each a transaction, and each session once, from all its spans."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import nanoarrow as na
import pytest
from made_once import new_database
from paths import SAMPLE

from spangrade import StoreError
from spangrade.evaluator.derive import load, stale, update
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.derive.sync import intake
from spangrade.evaluator.derive.sync import update as sync
from spangrade.evaluator.derive.sync.sessions import BuiltSessions, insert_sessions
from spangrade.evaluator.session import Session
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

SESSIONS, TURNS = 4, 3
# How much is read and held at once, in rows and in bytes, and how many steps that makes of 24 records.
AMOUNTS = {(6, 1 << 30): 6, (6, 7_000): 7, (1, 1): 20}
STOPS = [(amount, stop) for amount, steps in AMOUNTS.items() for stop in range(steps)]


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
def in_few_steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Session, ...]:
    return tuple(by_id(whole(tmp_path_factory.mktemp("whole") / "s.duckdb")))


@pytest.fixture
def small_steps(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Read and hold little at once: amounts of a parameter, else six rows of which all are held."""
    at_once, held = getattr(request, "param", (6, 1 << 30))
    monkeypatch.setattr(sync, "AT_ONCE", at_once)
    monkeypatch.setattr(sync, "_HELD_BYTES", held)


def by_id(sessions: Iterable[Session]) -> list[Session]:
    return sorted(sessions, key=lambda session: session.session_id)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("small_steps", AMOUNTS, indirect=True)
def test_each_session_is_built_from_all_its_traces_however_little_is_read_and_held_at_once(
    request: pytest.FixtureRequest, in_few_steps: tuple[Session, ...], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        steps = list(sync.steps(store))
        assert by_id(load(store)) == list(in_few_steps)
        assert not stale(store)
    assert len(steps) == AMOUNTS[request.node.callspec.params["small_steps"]]
    assert set().union(*steps) == {f"s{number}" for number in range(SESSIONS)}


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("small_steps", "stop_after"), STOPS, indirect=["small_steps"])
@pytest.mark.short_form("stop_after", 12)
def test_derivation_that_is_interrupted_is_completed_by_another_process(
    stop_after: int, in_few_steps: tuple[Session, ...], tmp_path: Path
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.add(interleaved())
        for _, _ in zip(range(stop_after), sync.steps(store), strict=False):
            pass
    with Store.open(path) as store:
        assert stale(store)
        update(store)
        assert not stale(store)
        assert by_id(load(store)) == list(in_few_steps)
        assert update(store) == 0


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize(("small_steps", "stop_after"), STOPS, indirect=["small_steps"])
@pytest.mark.short_form("stop_after", 12)
def test_a_trace_that_grows_while_derivation_is_interrupted_is_complete(
    stop_after: int, in_few_steps: tuple[Session, ...], tmp_path: Path
) -> None:
    *early, late = interleaved()
    held = sync.HeldTraces()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(early)
        for _, _ in zip(range(stop_after), sync.steps(store, held=held), strict=False):
            pass
        store.add([late])
        list(sync.steps(store, held=held))
        assert not stale(store)
        assert by_id(load(store)) == list(in_few_steps)


@pytest.mark.usefixtures("small_steps")
def test_what_is_held_is_of_no_use_once_another_process_has_derived(
    in_few_steps: tuple[Session, ...], tmp_path: Path
) -> None:
    *early, late = interleaved()
    held = sync.HeldTraces()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(early)
        for _, _ in zip(range(5), sync.steps(store, held=held), strict=False):
            pass  # all is linked, and one session built
        store.add([late])
        update(store)
        assert by_id(load(store)) == list(in_few_steps)
        store.query("INSERT INTO derived.changed VALUES ('s3')")
        list(sync.steps(store, held=held))
        assert by_id(load(store)) == list(in_few_steps)


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("small_steps", AMOUNTS, indirect=True)
def test_a_window_that_is_over_at_once_gets_on(in_few_steps: tuple[Session, ...], tmp_path: Path) -> None:
    held = sync.HeldTraces()
    left = []
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        while not left or stale(store):
            list(sync.steps(store, until_s=0, held=held))
            left.append(sync.records_left(store))
            assert len(left) < 100
        assert by_id(load(store)) == list(in_few_steps)
    assert left[-1] == 0


@pytest.mark.usefixtures("small_steps")
@pytest.mark.parametrize("sought", [1, 5, 8, 24])
def test_the_traces_of_a_backlog_are_looked_for_in_parts_and_each_is_read_whole_once(
    sought: int, in_few_steps: tuple[Session, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5 records or 1 a trace has its spans in two parts; with 8 a session has."""
    monkeypatch.setattr(sync, "_SOUGHT", sought)
    read: list[str] = []
    observe_records = sync.observe_records

    def observed(*arguments: Any) -> Any:
        found = observe_records(*arguments)
        read.extend(trace.trace_id for trace, _ in found)
        return found

    monkeypatch.setattr(sync, "observe_records", observed)
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        update(store)
        assert not stale(store)
        assert by_id(load(store)) == list(in_few_steps)
    assert len(read) == len(set(read)) == SESSIONS * TURNS


def test_the_first_sessions_of_a_backlog_are_built_before_its_last_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "AT_ONCE", 2)
    monkeypatch.setattr(sync, "_HELD_BYTES", 1)
    first, second = interleaved()[:2], interleaved()[2:4]
    log = LogRecord(
        None, None, 1, None, attributes={"gen_ai.conversation.id": "s0", "spangrade.state": {"a": 1}}
    )
    with Store.open(tmp_path / "s.duckdb") as store:
        for records in (first, second, [log]):
            store.add(records)
        assert [(ids, sync.derived_up_to(store)) for ids in sync.steps(store) if ids] == [
            ({"s0"}, 1),
            ({"s1"}, 3),
            ({"s0"}, 5),
        ]
        assert [session.state_variables for session in load(store, "s0")] == [{"a": 1}]


def test_a_trace_that_is_large_is_read_as_it_is_observed(
    in_few_steps: tuple[Session, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "AT_ONCE_BYTES", 1)
    elsewhere: list[object] = []

    def in_order(function: Callable[[Any], Any], jobs: Iterable[Any]) -> Iterator[Any]:
        for job in jobs:
            elsewhere.append(job)
            yield function(job)

    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        list(sync.steps(store, in_order))
        assert by_id(load(store)) == list(in_few_steps)
    assert len(elsewhere) == 1  # the sessions, from what is held


def test_a_second_row_of_a_session_is_refused_by_name(tmp_path: Path) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        update(store)
        built = BuiltSessions(["s0"], {"sessions": _rows_of(store, "s0")})
        with (
            pytest.raises(StoreError, match=r"s\.duckdb: session s0: derived a second time"),
            store.transaction(),
        ):
            insert_sessions(store, built)
        assert len(list(load(store))) == SESSIONS


def _rows_of(store: Store, session_id: str) -> na.Array:
    (session,) = load(store, session_id)
    return arrow_rows(rows_of([session], batch=0)["sessions"], TABLES["sessions"].arrow_types)


def test_what_is_left_is_what_is_to_be_linked_and_built(tmp_path: Path) -> None:
    spans = interleaved()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(spans[:16])  # two turns of each session
        update(store)
        store.add(spans[16:18])  # the third turn of one
        assert sync.records_left(store) == 2 * 2
        steps = sync.steps(store)
        next(steps)
        assert sync.records_left(store) == 2 * 1 + 6
        next(steps)
        assert sync.records_left(store) == 0


@pytest.mark.parametrize(("rows", "openings"), [(16, 3), (64, 2)])
def test_an_import_writes_before_its_end_what_fills_a_portion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rows: int, openings: int
) -> None:
    """The sample has 44 spans."""
    monkeypatch.setattr(intake, "WRITE", rows)
    db = new_database(tmp_path / "s.duckdb")
    opened = []

    def open_store() -> Store:
        opened.append(Store.open(db))
        return opened[-1]

    found = intake.import_batches(open_store, *intake.start_import(db, [SAMPLE / "spans.otlp.jsonl"]))
    assert (found is not None and found.spans, len(opened)) == (44, openings)
