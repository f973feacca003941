"""A question without a session because the user's texts are not recorded: `grade` says so, and the line."""

import pytest

import spangrade
from spangrade import Selection
from spangrade.converters.spans.registry import dialects
from spangrade.evaluator.grading.grade import Coverage
from spangrade.tracer import semconv
from spangrade.tracer.frameworks import ADK, AGENT_FRAMEWORK, GENAI, HAYSTACK
from spangrade.tracer.span import Span
from spangrade.tracer.store import Store

QUESTION = {"id": "q1", "user_inputs": ["Where is A-1001?"]}
# What records a model call without content, and the beginning of the line that adds it.
STACKS = {
    "gcp.vertex.agent": f"ADK: set {ADK.settings}",
    "agent_framework": f"MS Agent Framework: set {AGENT_FRAMEWORK.settings}",
    "opentelemetry.instrumentation.openai_v2": f"set {GENAI.settings}",
    "a scope that nobody knows": f"set {GENAI.settings}",
}
GENERAL = "no session answers it; import one, or name it with --answers SESSION=ID"


def recorded(path, scope, sessions=1, **attributes):
    """Store a model call each of some sessions."""
    with Store.open(path) as store:
        store.add(
            [
                Span(
                    f"{number:032x}",
                    f"{number:016x}",
                    None,
                    "chat m",
                    "CLIENT",
                    number * 10**9,
                    number * 10**9 + 1,
                    attributes={
                        semconv.OPERATION_NAME: "chat",
                        semconv.REQUEST_MODEL: "m",
                        semconv.CONVERSATION_ID: f"c{number}",
                        **attributes,
                    },
                    scope_name=scope,
                )
                for number in range(1, sessions + 1)
            ]
        )
    return spangrade.open(path)


def reasons(run):
    return [one.reason for one in run.sessions if one.session_id is None]


@pytest.mark.parametrize("scope", STACKS)
@pytest.mark.short_form("scope", 2)
def test_the_reason_is_that_texts_are_not_recorded_with_the_advice_of_lint(scope, tmp_path):
    with recorded(tmp_path / "db.duckdb", scope) as db:
        [reason] = reasons(db.grade([QUESTION]))
        [advice] = {one.advice for one in db.lint() if one.code == "no_user_input"}
    assert reason == (
        f"no session is known to answer it: of 1 session no user texts are recorded: {advice}; "
        "--answers SESSION=ID names one"
    )
    assert STACKS[scope] in reason


def test_every_unanswered_question_says_so_and_coverages_add_up(tmp_path):
    with recorded(tmp_path / "db.duckdb", "gcp.vertex.agent", 3) as db:
        first, second = reasons(db.grade([QUESTION, {**QUESTION, "id": "q2"}]))
    assert first == second
    assert "of 3 sessions no user texts are recorded: ADK: set" in first
    parts = (
        Coverage({"q1"}),
        Coverage(set(), {"q2"}, 2, (("t", "s"),)),
        Coverage(without_texts=1, places=(("t", "x"),)),
    )
    whole = Coverage()
    for part in parts:
        whole.add(part)
    assert whole == Coverage({"q1"}, {"q2"}, 3, (("t", "s"), ("t", "x")))


@pytest.mark.parametrize(
    "attributes",
    [{semconv.INPUT_MESSAGES: '[{"role": "user", "content": "Hello"}]'}, {semconv.QUESTION_ID: "another"}],
)
def test_a_session_with_texts_or_a_question_of_its_own_is_no_reason(attributes, tmp_path):
    with recorded(tmp_path / "db.duckdb", "gcp.vertex.agent", **attributes) as db:
        assert reasons(db.grade([QUESTION])) == [GENERAL]


def test_a_session_that_is_named_for_another_question_is_no_reason(tmp_path):
    with recorded(tmp_path / "db.duckdb", "gcp.vertex.agent") as db:
        run = db.grade(
            [QUESTION, {"id": "q2", "user_inputs": ["Other"]}], select=Selection(answers={"c1": "q2"})
        )
    assert reasons(run) == [GENERAL]


def test_the_advice_of_a_dialect_is_what_is_switched_on():
    found = {name: dialects()[name].advice.content for name in ("haystack", "adk")}
    assert HAYSTACK.settings in found["haystack"]
    assert ADK.settings in found["adk"]
