"""What a restart of the receiver cut is incomplete, and nothing else is."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from spangrade.evaluator.derive.sync.update import update
from spangrade.tracer.receiver.loader import note_start
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

NOW_NS = 1_767_258_000_000_000_000
SECOND_NS = 1_000_000_000
RESTARTED = "2026-01-01T09:00:00"
WHY = f"spans never arrived that were due when the receiver was restarted at {RESTARTED}"
RUN = "invoke_agent shop"
ALL = (RUN, "chat gpt-4.1", "execute_tool look_up")
LEAVES = ALL[1:]


def trace(number: int, names: Sequence[str] = ALL, *, ago_s: float, root: int | None = None) -> list[Span]:
    """Return spans of the trace of a session `sN`, of which the first is the parent of the others.

    `root` is the parent of the first: a caller's span, that is recorded elsewhere.
    """
    spans = []
    for name in names:
        place = ALL.index(name)
        operation, _, of = name.partition(" ")
        key = {"invoke_agent": "gen_ai.agent.name", "chat": "gen_ai.request.model"}.get(operation)
        above = root if name == RUN else number * 10
        spans.append(
            Span(
                f"{number:032x}",
                f"{number * 10 + place:016x}",
                None if above is None else f"{above:016x}",
                name,
                "INTERNAL",
                NOW_NS - int((ago_s + 3) * SECOND_NS) + place,
                NOW_NS - int(ago_s * SECOND_NS),
                attributes={
                    "gen_ai.operation.name": operation,
                    key or "gen_ai.tool.name": of,
                    "gen_ai.conversation.id": f"s{number}",
                },
                resource={"service.name": "shop"},
            )
        )
    return spans


def unfinished(store: Store) -> dict[str, tuple[str | None, int]]:
    """Return why sessions are not whole and how many spans they lack, without those that are whole."""
    update(store)
    rows = store.query("SELECT session_id, unfinished, missing_spans FROM derived.sessions")
    return {name: (why, missing) for name, why, missing in rows if why or missing}


def restarted(folder: Path, *received: Iterable[Span], before: Iterable[Span] = ()) -> Store:
    """Return a database to which a receiver wrote spans, and that another one has opened since."""
    store = Store.open(folder / "spans.duckdb")
    store.add(before)
    note_start(store, NOW_NS - 3_600 * SECOND_NS)
    for spans in received:
        store.add(spans)
    note_start(store, NOW_NS)
    return store


WHOLE = [span for number in (1, 2) for span in trace(number, ago_s=600 - number)]


def test_a_trace_whose_root_never_arrived_lacks_it_since_the_restart(tmp_path: Path) -> None:
    with restarted(tmp_path, WHOLE, trace(3, LEAVES, ago_s=20)) as store:
        assert unfinished(store) == {"s3": (WHY, 1)}
        note_start(store, NOW_NS + SECOND_NS)  # the next start repeats nothing
        assert store.query("SELECT count(*) FROM logs") == [(1,)]


def test_what_arrives_after_all_makes_it_whole(tmp_path: Path) -> None:
    with restarted(tmp_path, WHOLE, trace(3, LEAVES, ago_s=20)) as store:
        assert set(unfinished(store)) == {"s3"}
        store.add(trace(3, [RUN], ago_s=20))
        assert unfinished(store) == {}


def test_each_restart_counts_by_itself(tmp_path: Path) -> None:
    with restarted(tmp_path, WHOLE, trace(3, LEAVES, ago_s=20)) as store:
        store.add([*trace(4, ago_s=-400), *trace(5, LEAVES, ago_s=-590)])
        note_start(store, NOW_NS + 600 * SECOND_NS)
        later = WHY.replace(RESTARTED, "2026-01-01T09:10:00")
        assert unfinished(store) == {"s3": (WHY, 1), "s5": (later, 1)}


def test_what_was_too_early_to_tell_is_marked_by_the_next_restart(tmp_path: Path) -> None:
    with restarted(tmp_path, trace(3, LEAVES, ago_s=20)) as store:
        assert unfinished(store) == {}  # no trace shows what is usual
        store.add([span for number in (4, 5) for span in trace(number, ago_s=-number)])
        note_start(store, NOW_NS + 30 * SECOND_NS)
        assert unfinished(store) == {"s3": (WHY.replace(RESTARTED, "2026-01-01T09:00:30"), 1)}


def test_every_parent_that_is_missing_counts(tmp_path: Path) -> None:
    lost = trace(3, LEAVES, ago_s=20)
    lost[1] = lost[1]._replace(parent_span_id=f"{99:016x}")
    with restarted(tmp_path, WHOLE, lost) as store:
        assert unfinished(store) == {"s3": (WHY, 2)}


def test_a_trace_that_lacks_a_span_beneath_its_root_names_the_restart_too(tmp_path: Path) -> None:
    lost = trace(3, LEAVES, ago_s=20)
    lost = [span._replace(parent_span_id=f"{99:016x}") for span in lost]
    with restarted(tmp_path, WHOLE, [*trace(3, [RUN], ago_s=20), *lost]) as store:
        assert unfinished(store) == {"s3": (WHY, 1)}


@pytest.mark.parametrize(
    ("received", "before"),
    [
        pytest.param([*WHOLE, *trace(3, ago_s=1)], [], id="all of it is there"),
        pytest.param(
            [span for n in (1, 2, 3) for span in trace(n, ago_s=600 - 290 * (n - 1), root=7)],
            [],
            id="the parent is a caller's that is recorded elsewhere",
        ),
        pytest.param(
            [span for n in (1, 2, 3) for span in trace(n, LEAVES, ago_s=600 - 290 * (n - 1))],
            [],
            id="a filter drops the parents of all traces",
        ),
        pytest.param(
            [span for n in (1, 2, 3) for span in trace(n, ago_s=10 * n, root=7)],
            [],
            id="the same of traces that are all recent",
        ),
        pytest.param(
            [*WHOLE, *trace(4, LEAVES, ago_s=590), *trace(3, LEAVES, ago_s=20)],
            [],
            id="a trace that was over before lacks the same parent",
        ),
        pytest.param(
            [*trace(3, LEAVES, ago_s=590), *WHOLE, *trace(4, ago_s=5)],
            [],
            id="the agent ended long before the restart",
        ),
        pytest.param([], [*WHOLE, *trace(3, LEAVES, ago_s=20)], id="no receiver got it"),
        pytest.param(
            [*WHOLE, *trace(3, [RUN, ALL[1]], ago_s=20)], [], id="what was lost has left no trace of itself"
        ),
    ],
)
def test_a_trace_without_evidence_of_a_loss_is_not_marked(
    tmp_path: Path, received: list[Span], before: list[Span]
) -> None:
    with restarted(tmp_path, received, before=before) as store:
        assert unfinished(store) == {}
        assert store.query("SELECT count(*) FROM logs") == [(0,)]
