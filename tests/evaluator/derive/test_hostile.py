"""Whatever spans and logs hold, our own dialects read them, and sessions are assembled and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pytest
from hostile import EXAMPLES, logs, places, recorded_spans, spans, with_place, words
from hypothesis import given, settings
from hypothesis import strategies as st

from spangrade.converters.spans.dialects.genai import reader
from spangrade.converters.spans.observation import Observation
from spangrade.converters.spans.registry import checked, dialects
from spangrade.evaluator.derive.build_session import build_session
from spangrade.evaluator.derive.schema import TABLES
from spangrade.evaluator.derive.session_rows import rows_of
from spangrade.evaluator.derive.sync.link_traces import position_of
from spangrade.evaluator.session import Session
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.span import LogRecord, Span
from spangrade.tracer.store.arrow import arrow_rows


def read(span: Span, span_logs: Sequence[LogRecord] = ()) -> Observation:
    """Read a span without the guard that third-party dialects need."""
    dialect = next(dialect for dialect in dialects().values() if dialect.claims(span))
    return checked(reader(dialect)(span, span_logs), span)


def derived(some_spans: Iterable[Span], some_logs: Sequence[LogRecord] = ()) -> Session:
    """Return the session of spans, which can be written and shown."""
    observations = [
        read(span, [log for log in some_logs if (log.trace_id, log.span_id) == (span.trace_id, span.span_id)])
        for span in some_spans
    ]
    position_of(observations)
    session = build_session("s", "conversation", observations)
    for table, rows in rows_of([session], 1).items():
        arrow_rows(rows, TABLES[table].arrow_types)
    dumps(session.to_json())
    return session


@settings(max_examples=EXAMPLES)
@given(some_spans=st.lists(spans(), min_size=1, max_size=5), some_logs=st.lists(logs(), max_size=2))
def test_no_span_is_unreadable_and_no_session_fails(
    some_spans: list[Span], some_logs: list[LogRecord]
) -> None:
    derived(some_spans, some_logs)


@pytest.mark.exhaustive
def test_each_place_of_the_recordings_may_hold_a_value_of_another_type() -> None:
    tried: set[tuple[object, ...]] = set()
    for span in recorded_spans():
        for path in places(span.attributes):
            place = (span.scope_name, *("[]" if isinstance(step, int) else step for step in path))
            if path and place not in tried:
                tried.add(place)
                for new in (["x"], {"a": {}}, 5):
                    read(span._replace(attributes=with_place(span.attributes, path, new)))
    assert len(tried) > 1_000


def test_the_words_are_all_that_dialects_look_up_in_the_recordings() -> None:
    looked_up: set[str] = set()

    class Noting(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            looked_up.add(key)
            return super().get(key, default)

        def __getitem__(self, key: str) -> Any:
            looked_up.add(key)
            return super().__getitem__(key)

        def __contains__(self, key: object) -> bool:
            looked_up.add(str(key))
            return super().__contains__(key)

    for span in recorded_spans():
        read(span._replace(attributes=Noting(span.attributes)))
    assert len(looked_up) > 50
    assert {name for name in looked_up if name not in words() and not _is_joined(name)} == set()


def _is_joined(name: str) -> bool:
    """Return whether a name is made of two of the words: a prefix and the rest."""
    return any(name.startswith(word) and name[len(word) :] in words() for word in words() if word)
