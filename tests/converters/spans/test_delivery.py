"""However a recording is delivered (in any order, twice, in portions, logs first), it derives the same."""

from __future__ import annotations

import random
import tempfile
from functools import cache
from pathlib import Path

import pytest
import recordings
from hypothesis import example, given, settings
from hypothesis import strategies as st
from made_once import new_store
from recordings import NAMES

from spangrade.evaluator.derive import load, update
from spangrade.evaluator.session import Session
from spangrade.tracer.span import LogRecord, Span

Records = list[Span | LogRecord]

LONG = settings.get_current_profile_name() == "long"
# Each recording is delivered in one of two ways; in .ci/long in both.
FIRST, SECOND = (NAMES, NAMES) if LONG else (NAMES[::2], NAMES[1::2])


records = cache(recordings.records)


def in_written_order(delivered: Records, whole: Records) -> Records:
    """Return records with the logs of one span at one time in their order, which nothing else records."""

    def key(record: Span | LogRecord) -> tuple[str | None, int] | None:
        return (record.span_id, record.time_ns) if isinstance(record, LogRecord) else None

    written = {id(record): place for place, record in enumerate(whole)}
    together: dict[tuple[str | None, int], Records] = {}
    for record in sorted(delivered, key=lambda one: -written[id(one)]):
        if (at := key(record)) is not None:
            together.setdefault(at, []).append(record)
    return [record if (at := key(record)) is None else together[at].pop() for record in delivered]


def derived(portions: list[Records], db: Path) -> list[Session]:
    """What is derived when each portion is followed by an update, as a live system has it."""
    with new_store(db) as store:
        for portion in portions:
            store.add(portion)
            update(store)
        return sorted(load(store), key=lambda session: session.session_id)


@cache
def expected(names: tuple[str, ...]) -> list[Session]:
    """What recordings derive when they are delivered together, as they were written."""
    with tempfile.TemporaryDirectory() as folder:
        whole = [record for name in names for record in records(name)]
        return derived([whole], Path(folder) / "s.duckdb")


@pytest.mark.exhaustive
@settings(max_examples=100 if LONG else 6)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=3, max_size=6, unique=True),
    seed=st.integers(0, 2**32),
    parts=st.integers(1, 4),
    logs=st.sampled_from(["first", "last", "among the spans"]),
)
@example(names=FIRST, seed=1, parts=3, logs="first")
@example(names=SECOND, seed=2, parts=3, logs="among the spans")
def test_every_frameworks_recording_derives_the_same_however_it_is_delivered(
    names: list[str], seed: int, parts: int, logs: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    chance = random.Random(seed)
    whole = [record for name in names for record in records(name)]
    delivered = [*whole, *chance.sample(whole, len(whole) // 4)]
    chance.shuffle(delivered)
    if logs != "among the spans":
        delivered.sort(key=lambda record: isinstance(record, LogRecord) == (logs == "last"))
    delivered = in_written_order(delivered, whole)
    size = -(-len(delivered) // parts)
    portions = [delivered[at : at + size] for at in range(0, len(delivered), size)]
    db = tmp_path_factory.mktemp("parts") / "s.duckdb"
    assert derived(portions, db) == expected(tuple(names))


def test_the_recordings_hold_both_spans_and_logs_of_many_frameworks() -> None:
    kinds = {type(record) for name in NAMES for record in records(name)}
    assert (kinds, len(NAMES)) == ({Span, LogRecord}, 77)
