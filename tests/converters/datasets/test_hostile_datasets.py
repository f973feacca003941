"""Foreign files with any part of them replaced by anything: what is wrong is a problem, never a crash."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from paths import HISTORY
from short_form import examples

from spangrade import InputError
from spangrade.converters.datasets.adk_evalset import questions_of
from spangrade.converters.datasets.adk_events import spans_of
from spangrade.converters.datasets.adk_history import EvalCase, read_history
from spangrade.converters.datasets.conversation_log import question_of
from spangrade.converters.datasets.golden import question_problems
from spangrade.converters.datasets.recognized import is_evalset
from spangrade.converters.datasets.simulation_csv import Row, csv_text, read_jsonl, spans_in
from spangrade.tracer.span import Problem, Span

(RESULT,) = (HISTORY / "2.13.0" / ".adk" / "eval_history").iterdir()
ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=5,
)


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to all parts of a JSON value."""
    for key, item in value.items() if isinstance(value, dict) else enumerate(value):
        yield (*path, key)
        if isinstance(item, dict | list):
            yield from places(item, (*path, key))


def with_changes(document: Any) -> st.SearchStrategy[Any]:
    """The document with one to three of its parts replaced, or taken out of objects."""
    by_depth: dict[int, list[tuple[Any, ...]]] = {}
    for way in places(document):
        by_depth.setdefault(len(way), []).append(way)
    # Few parts stand near the top, and most that matters does.
    way = st.sampled_from(list(by_depth.values())).flatmap(st.sampled_from)
    change = st.tuples(way, ANYTHING | st.just(...))

    def changed(changes: list[tuple[tuple[Any, ...], Any]]) -> Any:
        copied = copy.deepcopy(document)
        for way, value in changes:
            at = copied
            for key in way[:-1]:
                at = at[key] if isinstance(at, dict | list) and key in [*places_of(at)] else None
            if isinstance(at, dict) and value is ...:
                at.pop(way[-1], None)
            elif isinstance(at, dict | list) and value is not ... and way[-1] in places_of(at):
                at[way[-1]] = value
        return copied

    return st.lists(change, min_size=1, max_size=3).map(changed)


def places_of(value: Any) -> Any:
    return value.keys() if isinstance(value, dict) else range(len(value))


def without_nulls(value: Any) -> Any:
    """The history without the many nulls that ADK writes: parts that matter are hit more often."""
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None and k != "app_details"}
    return value


RESULTS = without_nulls(json.loads(RESULT.read_bytes()))


@settings(max_examples=examples(150))
@given(with_changes(RESULTS))
def test_a_history_with_anything_in_it_becomes_cases_and_problems(
    tmp_path_factory: Any, document: Any
) -> None:
    file = tmp_path_factory.mktemp("history") / "x.evalset_result.json"
    file.write_text(json.dumps(document))
    for case in read_history(file):
        if isinstance(case, EvalCase):
            spans = list(spans_of(case.session_id, case.turns, case.state, case.eval_id, case.durations))
            assert csv_text([(case, spans, None)])
        else:
            assert isinstance(case, Problem)


@settings(max_examples=examples(150))
@given(with_changes(json.loads((HISTORY / "cs_evalset.evalset.json").read_bytes())))
def test_an_eval_set_with_anything_in_it_becomes_questions_and_problems(document: Any) -> None:
    if is_evalset(document):
        for question in questions_of(document, "file", "agent"):
            assert isinstance(question, Problem) or question_problems(question) == []


LOG = [
    {"query": "hi", "expected_tool_use": [{"tool_name": "t", "tool_input": {"a": 1}}], "reference": "x"},
    {"query": "bye", "expected_tool_use": [{"name": "t", "args": {}}]},
]


@settings(max_examples=examples(150))
@given(with_changes(LOG))
def test_a_log_with_anything_in_it_becomes_a_question_and_problems(document: Any) -> None:
    try:
        records = list(question_of(document, "file", "agent", "q", {}))
    except InputError:
        return
    assert all(isinstance(record, Problem) or question_problems(record) == [] for record in records)
    assert not isinstance(records[-1], Problem)


def interaction() -> dict[str, Any]:
    """A processed interaction with everything that a row may be read from."""
    (case, *_) = (case for case in read_history(RESULT) if isinstance(case, EvalCase))
    spans = spans_of(case.session_id, case.turns, case.state, case.eval_id, case.durations)
    record = RESULTS["eval_case_results"][0]["session_details"]
    return {
        "question_id": case.eval_id,
        "session_id": case.session_id,
        "user_inputs": [turn.user_input for turn in case.turns],
        "agents_evaluated": ["a"],
        "reference_data": {},
        "extracted_data": {
            "state_variables": case.state,
            "tool_interactions": [
                {"tool_name": call.name, "input_arguments": call.arguments}
                for turn in case.turns
                for call in turn.calls
            ],
        },
        "session_state": record,
        "session_trace": [
            {
                "name": span.name,
                "span_id": str(int(span.span_id, 16)),
                "trace_id": str(number),
                "parent_span_id": str(int(span.parent_span_id, 16)) if span.parent_span_id else None,
                "start_time": span.start_ns,
                "end_time": span.end_ns,
                "attributes": {"gcp.vertex.agent.tool_call_args": "{}"},
            }
            for number, span in enumerate(spans, 1)
        ],
    }


@settings(max_examples=examples(200))
@given(with_changes(interaction()))
def test_a_row_with_anything_in_it_becomes_spans_and_problems(tmp_path_factory: Any, document: Any) -> None:
    file = tmp_path_factory.mktemp("rows") / "x.jsonl"
    file.write_text(json.dumps(document) + "\n")
    for row in read_jsonl(file):
        if isinstance(row, Row):
            assert all(isinstance(record, Span | Problem) for record in spans_in(row))
        else:
            assert isinstance(row, Problem)
