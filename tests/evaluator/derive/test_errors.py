"""The failures of a session: each once, where it began."""

from __future__ import annotations

from builders import Fields, built_session, reading

SHOP = reading("agent", "shop", None, (0, 9), name="shop")
HTTP = reading("other", "http", "ask", (1, 2), failed=True)
ASK = reading("llm", "ask", "shop", (1, 2), model="m", failed=True, error="400", raised=True)


def errors(*observations: Fields) -> list[tuple[str, str | None]]:
    session = built_session("s1", "conversation", list(observations))
    return [(error.where, error.message) for error in session.errors]


def test_a_failed_run_of_any_kind_is_an_error_where_it_began() -> None:
    failed = {"failed": True, "error": "boom", "span_name": "Crew.kickoff"}
    crew, inner = (
        reading("workflow", "crew", None, (0, 9), **failed),
        reading("workflow", "inner", "crew", (1, 2), **failed),
    )
    assert errors(crew) == [("run Crew.kickoff", "boom")]
    assert errors(crew, inner) == [("run Crew.kickoff", "boom")]
    assert errors(reading("turn", "t", None, (0, 9), **failed)) == [("run Crew.kickoff", "boom")]
    assert errors(reading("agent", "a", None, (0, 9), **failed)) == [("run Crew.kickoff", "boom")]
    assert errors(SHOP._replace(failed=True, error="boom")) == [("agent shop", "boom")]


def test_a_failed_handoff_is_an_error_named_after_its_target() -> None:
    handoff = reading("handoff", "h", "shop", (1, 2), failed=True)
    returns = reading("agent", "returns", "shop", (3, 4), name="returns")
    assert errors(SHOP, handoff, returns) == [("handoff returns", None)]
    assert errors(SHOP, handoff._replace(handoff_to="desk"), returns) == [("handoff desk", None)]


def test_a_failed_request_of_the_network_is_that_of_the_call_around_it() -> None:
    assert errors(SHOP, ASK, HTTP) == [("llm m", "400")]
    assert errors(SHOP, ASK, HTTP._replace(error="400")) == [("llm m", "400")]
    assert errors(SHOP, HTTP) == []


def test_a_status_that_was_copied_onto_later_spans_is_not_another_failure() -> None:
    copied = ASK._replace(raised=False, start_ns=3 * 10**9, end_ns=4 * 10**9, span_id="later")
    root = SHOP._replace(failed=True, error="400")
    assert errors(root, ASK, copied) == [("llm m", "400")]
    # A failure that has an exception of its own, or another message, is.
    assert len(errors(root, ASK, copied._replace(raised=True))) == 2
    assert len(errors(root, ASK, copied._replace(error="500"))) == 2


def test_a_tool_in_which_an_agent_failed_is_not_a_second_failure() -> None:
    tool = reading("tool", "t", "shop", (1, 8), name="returns", failed=True, error="no model")
    inner = reading("llm", "m", "t", (2, 3), model="m", failed=True, error="no model", raised=True)
    assert errors(SHOP, tool, inner) == [("llm m", "no model")]
    assert errors(SHOP, tool._replace(error="timeout"), inner) == [
        ("tool returns", "timeout"),
        ("llm m", "no model"),
    ]


def test_the_text_of_a_failure_is_not_the_reply_of_the_run_that_failed() -> None:
    failed = SHOP._replace(failed=True, error="no model", response="ModelError: no model")
    (turn,) = built_session("s1", "conversation", [failed]).turns
    assert (turn.failed, turn.final_response) == (True, None)
    (turn,) = built_session("s1", "conversation", [failed._replace(response="I cannot.")]).turns
    assert turn.final_response == "I cannot."
