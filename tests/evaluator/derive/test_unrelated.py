"""Spans that are not an agent's (HTTP, a database), above, between and below its spans, change no fact."""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import recordings
from hypothesis import given, settings
from hypothesis import strategies as st
from recordings import NAMES, records

from spangrade.evaluator.session import Session
from spangrade.tracer.span import Span

_UNRELATED = [
    ("POST", "SERVER", "opentelemetry.instrumentation.asgi", {"http.request.method": "POST"}),
    ("GET /orders", "CLIENT", "opentelemetry.instrumentation.httpx", {"http.response.status_code": 200}),
    ("SELECT shop", "CLIENT", "opentelemetry.instrumentation.psycopg", {"db.system.name": "postgresql"}),
]


def unrelated(chance: random.Random, trace_id: str, parent: str | None, start_ns: int, end_ns: int) -> Span:
    name, kind, scope, attributes = chance.choice(_UNRELATED)
    span_id = f"{chance.getrandbits(64):016x}"
    return Span(
        trace_id, span_id, parent, name, kind, start_ns, end_ns, attributes=attributes, scope_name=scope
    )


def surrounded(spans: list[Span], seed: int) -> list[Span]:
    """Return spans with others around roots, between parents and children, and under any of them.

    What is around a trace's only root may itself have a caller's parent, which is not recorded.
    """
    chance = random.Random(seed)
    roots = Counter(span.trace_id for span in spans if span.parent_span_id is None)
    by_id = {(span.trace_id, span.span_id): span for span in spans}
    result: list[Span] = []
    for span in spans:
        parent, trace_id = span.parent_span_id, span.trace_id
        between = (trace_id, parent) in by_id
        if chance.random() < 0.5 and (between or parent is None) and span.end_ns >= span.start_ns:
            if roots[trace_id] == 1 and not between and chance.random() < 0.5:
                parent = f"{chance.getrandbits(64):016x}"  # the caller's, which is not recorded
            other = unrelated(chance, trace_id, parent, span.start_ns, span.end_ns)
            result.append(other)
            span = span._replace(parent_span_id=other.span_id)
        result.append(span)
        if chance.random() < 0.5 and span.end_ns > span.start_ns:
            result.append(unrelated(chance, trace_id, span.span_id, span.start_ns, span.end_ns))
    return result


def facts(session: Session) -> Any:
    """Return a session without what only tells where it is recorded, and how completely."""
    return replace(session, missing_spans=0, not_understood=0, records=0).to_json()


@cache
def plain(name: str) -> list[Any]:
    return [record for record in records(name) if isinstance(record, Span)]


@pytest.mark.exhaustive
@settings(max_examples=5, deadline=None)
@given(
    names=st.lists(st.sampled_from(NAMES), min_size=3, max_size=3, unique=True),
    seed=st.integers(0, 2**32),
)
def test_unrelated_spans_change_no_fact(
    names: list[str], seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    for name in names:
        logs = [record for record in records(name) if not isinstance(record, Span)]
        db = tmp_path_factory.mktemp("db") / "s.duckdb"
        found = recordings.sessions([*surrounded(plain(name), seed), *logs], db)
        expected = {session.session_id: facts(session) for session in recordings.recorded_sessions(name)}
        assert {session.session_id: facts(session) for session in found} == expected, name
