"""Managed metrics on Vertex AI: its real client, against a stand-in of the service on loopback."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from builders import session, tool
from gemini_standin import MODEL, GeminiStandIn, gemini_standin
from grading import run_metric

from spangrade.evaluator.judge import JudgeOptions, Spent, judge_run, use_judge
from spangrade.evaluator.judge.models.vertex import VertexEvaluation, vertex_evaluation
from spangrade.evaluator.metrics import Failure, Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.metrics.definitions import definitions_of
from spangrade.evaluator.metrics.judged import judged

pytest.importorskip("agentplatform", reason="needs the extra `vertex`")
credentials = pytest.importorskip("google.oauth2.credentials")

SESSION = session([("hi", [tool("find", {"q": "a"}, output={"n": 1}, output_known=True)]), ("more", ())])


@pytest.fixture
def vertex() -> Iterator[GeminiStandIn]:
    with gemini_standin() as standin:
        yield standin


def made(standin: GeminiStandIn, name: str, **keys: Any) -> Metric:
    evaluation = VertexEvaluation(
        project="p",
        location="us-central1",
        credentials=credentials.Credentials(token="t"),
        http_options=standin.http_options(attempts=1),
    )
    document = {"metrics": {"m": {"is_managed": True, "managed_metric_name": name, **keys}}}
    return judged("m", definitions_of(document, "m.json")["m"], evaluation)


def measured(standin: GeminiStandIn, name: str, result: Any, **keys: Any) -> Outcome:
    standin.body = json.dumps({"metricResults": result}).encode()
    return run_metric(made(standin, name, **keys), SESSION, None)


def test_a_managed_metric_is_judged_by_googles_rubric_and_says_so(vertex: GeminiStandIn) -> None:
    result = [
        {
            "score": 0.5,
            "rubricVerdicts": [{"verdict": True}, {"verdict": False, "reasoning": "It is curt."}],
        }
    ]
    keys = {"score_range": {"min": 0, "max": 10}, "natural_language_guidelines": "Be kind."}
    assert measured(vertex, "GENERAL_QUALITY", result, **keys) == Score(
        5.0,
        None,
        "1 of 2 rubrics met; It is curt. (rubric vertex/general_quality_v1)",
        (),
        {"rubric": "vertex/general_quality_v1"},
    )
    (request,) = vertex.requests
    assert request.path.endswith("/projects/p/locations/us-central1/:evaluateInstances")
    assert request.body["instance"] == {"prompt": {"text": "hi\nmore"}, "response": {"text": "ok"}}
    (metric,) = request.body["metrics"]
    assert metric["predefined_metric_spec"] == {
        "metric_spec_name": "general_quality_v1",
        "metric_spec_parameters": {"guidelines": ["Be kind."]},
    }


def test_a_metric_of_many_turns_or_of_tools_is_shown_them(vertex: GeminiStandIn) -> None:
    measured(vertex, "multi_turn_tool_use_quality", [{"score": 1}])
    instance = vertex.requests[-1].body["instance"]
    assert [one["parts"][0]["text"] for one in instance["prompt"]["contents"]["contents"]] == [
        "hi",
        "ok",
        "more",
    ]
    events = instance["agent_eval_data"]["turns"][0]["events"]
    assert [(one["author"], one["content"]["parts"]) for one in events] == [
        ("user", [{"text": "hi"}]),
        ("shop", [{"function_call": {"name": "find", "args": {"q": "a"}}}]),
        ("shop", [{"function_response": {"name": "find", "response": {"n": 1}}}]),
        ("agent", [{"text": "ok"}]),
    ]


def test_what_goes_wrong_is_a_failure_and_never_a_score(vertex: GeminiStandIn) -> None:
    assert measured(vertex, "SAFETY", []) == Failure(
        "vertex/safety_v1: the answer has no score", by_judge=True
    )
    assert measured(vertex, "SAFETY", [{"error": {"code": 3, "message": "too long"}}]) == Failure(
        "vertex/safety_v1: too long", by_judge=True
    )
    vertex.failures = [403]
    refused = "vertex/safety_v1: 403 FAILED: stand-in fails with 403"
    assert measured(vertex, "SAFETY", []) == Failure(refused, by_judge=True)


def test_what_was_not_recorded_is_not_judged(vertex: GeminiStandIn) -> None:
    metric = made(vertex, "SAFETY")
    assert run_metric(metric, session([(None, ())]), None) == Inconclusive(
        "user_inputs is not recorded; `spangrade lint` says how to record it"
    )
    assert vertex.calls == 0


def test_vertex_is_asked_only_where_the_environment_means_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for value, meant in (("", False), ("false", False), ("true", True), ("1", True)):
        monkeypatch.setenv("GOOGLE_GENAI_USE_VERTEXAI", value)
        vertex_evaluation.cache_clear()
        assert (vertex_evaluation() is not None) is meant
    vertex_evaluation.cache_clear()


def test_its_calls_count_in_the_budget_of_the_run(vertex: GeminiStandIn) -> None:
    run = judge_run(JudgeOptions(MODEL, max_calls=1))
    with use_judge(run):
        assert isinstance(measured(vertex, "SAFETY", [{"score": 1}]), Score)
        assert isinstance(measured(vertex, "SAFETY", [{"score": 1}]), Inconclusive)
    assert (vertex.calls, run.spent) == (1, Spent(1, 0, None, None, None))
