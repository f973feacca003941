"""Bringing sessions up to date: in steps, each a transaction, and each session once, from all its spans."""

from __future__ import annotations

from pathlib import Path

import nanoarrow as na
import pytest
from made_once import copy_of_sample, new_database
from paths import SAMPLE

from spangrade.evaluator.derive import load, stale, update
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.derive.sync import intake, recorded
from spangrade.evaluator.derive.sync import update as sync
from spangrade.evaluator.derive.sync.observations import Observations
from spangrade.evaluator.derive.sync.sessions import BuiltSessions, insert_sessions
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import StoreError
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store import Store
from spangrade.tracer.store.arrow import arrow_rows

SESSIONS, TURNS = 4, 3
STEPS = 12  # four of six records, four of three traces, and then each session


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
    return tuple(whole(tmp_path_factory.mktemp("whole") / "s.duckdb"))


@pytest.fixture
def small_steps(in_few_steps: tuple[Session, ...], monkeypatch: pytest.MonkeyPatch) -> list[Session]:
    """Make steps of six records, three traces and one session; return the sessions of larger steps."""
    monkeypatch.setattr(recorded, "AT_ONCE", 6)
    monkeypatch.setattr(sync, "_LINKED_AT_ONCE", 3)
    monkeypatch.setattr(sync, "_BUILT_AT_ONCE", 2 * TURNS)
    return list(in_few_steps)


@pytest.mark.exhaustive
def test_each_session_is_built_once_when_all_traces_are_linked(
    small_steps: list[Session], tmp_path: Path
) -> None:
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        steps = list(sync.steps(store, Observations()))
        assert list(load(store)) == small_steps
    assert steps == [*[set()] * 8, *({f"s{number}"} for number in range(SESSIONS))]
    assert len(steps) == STEPS


@pytest.mark.parametrize("stop_after", range(STEPS))
@pytest.mark.short_form("stop_after", 12)
def test_derivation_that_is_interrupted_is_completed_by_another_process(
    stop_after: int, small_steps: list[Session], tmp_path: Path
) -> None:
    path = tmp_path / "s.duckdb"
    with Store.open(path) as store:
        store.add(interleaved())
        for _, _ in zip(range(stop_after), sync.steps(store, Observations()), strict=False):
            pass
    with Store.open(path) as store:
        assert stale(store)
        update(store)
        assert not stale(store)
        assert list(load(store)) == small_steps
        assert update(store) == 0


def test_what_was_observed_is_of_no_use_once_another_process_has_derived(
    small_steps: list[Session], tmp_path: Path
) -> None:
    *early, late = interleaved()
    observations = Observations()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(early)
        for _, _ in zip(range(9), sync.steps(store, observations), strict=False):
            pass  # all is linked, and one session built
        store.add([late])
        update(store)
        assert sorted(load(store), key=lambda s: s.session_id) == small_steps
        store.query("INSERT INTO derived.changed VALUES ('s3')")
        list(sync.steps(store, observations))
        assert sorted(load(store), key=lambda s: s.session_id) == small_steps


@pytest.mark.parametrize("stop_after", range(STEPS))
@pytest.mark.short_form("stop_after", 12)
def test_a_trace_that_grows_while_derivation_is_interrupted_is_complete(
    stop_after: int, small_steps: list[Session], tmp_path: Path
) -> None:
    *early, late = interleaved()
    observations = Observations()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(early)
        for _, _ in zip(range(stop_after), sync.steps(store, observations), strict=False):
            pass
        store.add([late])
        list(sync.steps(store, observations))
        assert not stale(store)
        assert sorted(load(store), key=lambda s: s.session_id) == small_steps


@pytest.mark.exhaustive
@pytest.mark.parametrize("records", [1, 5, 8, 24])
@pytest.mark.short_form("records", 4)
def test_a_backlog_is_derived_in_parts_each_to_its_end(
    records: int, small_steps: list[Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With 5 or 1 records a trace has its spans in two parts; a session always has, but in one of 24."""
    monkeypatch.setattr(sync, "_DERIVED_AT_ONCE", records)
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        steps = sync.steps(store, Observations())
        built_at = [sync.derived_up_to(store) for session_ids in steps if session_ids]
        assert not stale(store)
        assert sorted(load(store), key=lambda s: s.session_id) == small_steps
    assert sorted(set(built_at)) == [*range(records, 24, records), 24]


@pytest.mark.exhaustive
def test_a_part_of_a_backlog_is_built_before_the_next_is_read_however_often_it_is_left(
    small_steps: list[Session], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_DERIVED_AT_ONCE", 8)
    observations = Observations()
    reached = []
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(interleaved())
        while not reached or stale(store):
            next(sync.steps(store, observations))  # as if no window were longer than a step
            reached.append((sync.derived_up_to(store), len(sync.changed_sessions(store))))
        assert sorted(load(store), key=lambda s: s.session_id) == small_steps
    assert {up_to for up_to, changed in reached if not changed} >= {8, 16, 24}


def test_a_session_log_counts_in_the_part_of_a_backlog_in_which_it_arrived(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_DERIVED_AT_ONCE", 2)
    first, second = interleaved()[:2], interleaved()[2:4]
    log = LogRecord(
        None, None, 1, None, attributes={"gen_ai.conversation.id": "s0", "spangrade.state": {"a": 1}}
    )
    with Store.open(tmp_path / "s.duckdb") as store:
        for records in (first, second, [log]):
            store.add(records)
        steps = sync.steps(store, Observations())
        assert [(ids, sync.derived_up_to(store)) for ids in steps if ids] == [
            ({"s0"}, 2),
            ({"s1"}, 4),
            ({"s0"}, 5),
        ]
        assert [session.state_variables for session in load(store, "s0")] == [{"a": 1}]


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


def test_what_is_left_is_what_is_to_be_observed_linked_and_built(tmp_path: Path) -> None:
    spans = interleaved()
    observations = Observations()
    with Store.open(tmp_path / "s.duckdb") as store:
        store.add(spans[:16])  # two turns of each session
        update(store)
        sync.start(store, observations)
        store.add(spans[16:18])  # the third turn of one
        assert sync.records_left(store, observations) == 2 + 2 * 2
        steps = sync.steps(store, observations)
        next(steps)
        assert sync.records_left(store, observations) == 2 * 2
        next(steps)
        assert sync.records_left(store, observations) == 6
        list(steps)
        assert sync.records_left(store, observations) == 0


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


def test_rows_are_read_until_their_text_reaches_an_amount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = copy_of_sample(tmp_path / "s.duckdb")
    monkeypatch.setattr(recorded, "_FETCH", 1)
    with Store.open(db, read_only=True) as store:
        ((first, *_),), _ = recorded.arrived_rows(store, 0, 1)[0]
        text = len(first[9]) + len(first[10])
        for limit, upto in ((text, 1), (text + 1, 2)):
            monkeypatch.setattr(recorded, "AT_ONCE_BYTES", limit)
            rows, reached = recorded.arrived_rows(store, 0, 44)
            assert (len(rows.spans[0]), reached) == (upto, upto)
