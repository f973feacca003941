"""What the driver of an agent sees of a turn decides the verdict, whoever drives it."""

import json
import textwrap

import pytest
from command_line import run as spangrade
from served_agents import served

from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder; a module `agent_KIND.py` of an agent is not imported twice."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_agent(folder, name, code):
    """Write a module, whose name no other test has, and return the text that names the agent in it."""
    (folder / f"{name}.py").write_text(textwrap.dedent(code))
    return f"{name}.py:answer"


def graded(folder, agent, questions, *options):
    """Run an agent over questions and return the exit code, and the verdict and reason of each question."""
    (folder / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    done = spangrade("run", *agent, "golden.json", "--format", "json", *options)
    printed = json.loads("\n".join(done.out))
    return done.code, {one["question_id"]: (one["verdict"], one["reason"]) for one in printed["grades"]}


def question(text, **reference):
    return {"id": text, "user_inputs": [text], "reference_data": reference}


RAISING = """
    import asyncio
    import sys

    class UnreadableError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Halt(BaseException):
        pass

    RAISED = {
        "unreadable": UnreadableError(),
        "base": Halt("it is over"),
        "cancelled": asyncio.CancelledError("leaked"),
        "interrupt": KeyboardInterrupt("its own"),
        "exit": SystemExit(0),
        "stop": StopIteration(),
        "plain": ValueError("no refunds; never"),
    }

    def answer(text):
        if text in RAISED:
            raise RAISED[text]
        return "All is well."

    async def answer_async(text):
        return answer(text)
"""


@pytest.mark.parametrize("kind", ["answer", "answer_async"])
def test_whatever_an_agent_raises_fails_its_session_with_type_text_and_place_and_the_run_goes_on(
    folder, kind
):
    agent = write_agent(folder, f"raising_{kind}", RAISING).replace(":answer", f":{kind}")
    names = ["unreadable", "base", "cancelled", "interrupt", "exit", "stop", "plain", "fine"]
    code, grades = graded(folder, [agent], [question(name, forbidden_texts=["secret"]) for name in names])
    line = 1 + RAISING.splitlines().index("            raise RAISED[text]")
    raised = {
        "unreadable": "UnreadableError: its text cannot be read (RuntimeError)",
        "base": "Halt: it is over",
        "cancelled": "CancelledError: leaked",
        "interrupt": "KeyboardInterrupt: its own",
        "exit": "SystemExit: 0",
        "stop": "RuntimeError: the agent raised StopIteration",
        "plain": "ValueError: no refunds; never",
    }
    if kind == "answer_async":
        raised["stop"] = "RuntimeError: coroutine raised StopIteration"
    place = f"(raising_{kind}.py:{line})"
    failed = "conversation: turn 1 ended in an error without an answer"
    assert (code, {name: grade[0] for name, grade in grades.items()}) == (
        1, dict.fromkeys(raised, "failed") | {"fine": "passed"}
    )  # fmt: skip
    assert {name: grades[name][1] for name in raised} == {
        name: f"{failed}: {text} {place}" for name, text in raised.items()
    }


REPLYING = """
    import spangrade

    REPLIES = {
        "empty": "",
        "nothing": None,
        "another shape": {"reply": "It is late."},
        "not a text": {"text": 7},
        "nothing, no calls": {"text": None, "tool_calls": []},
        "a text": {"text": "It is late.", "tool_calls": [{"name": "look_up", "arguments": {}, "result": 1}]},
    }

    def answer(text):
        return REPLIES[text]
"""
REPLIES = {
    "empty": "turn 1 has an empty reply",
    "nothing": "turn 1 has no reply",
    "another shape": "turn 1 ended in an error without an answer: ValueError: no key `text` in the answer; "
    "it has: reply",
    "not a text": "turn 1 ended in an error without an answer: ValueError: text: Input should be a valid "
    "string",
    "nothing, no calls": "turn 1 has no reply",
    "a text": "",
}


def test_an_empty_reply_and_none_and_an_answer_of_another_shape_fail(folder):
    agent = write_agent(folder, "replying", REPLYING)
    code, grades = graded(folder, [agent], [question(name, forbidden_texts=["x"]) for name in REPLIES])
    assert (code, grades) == (
        1,
        {
            name: ("failed", f"conversation: {reason}") if reason else ("passed", "")
            for name, reason in REPLIES.items()
        },
    )
    graded_again = spangrade("grade", "golden.json", "--format", "json")
    again = {one["question_id"]: one["reason"] for one in json.loads("\n".join(graded_again.out))["grades"]}
    assert again == {name: reason for name, (_, reason) in grades.items()}


def test_over_http_an_empty_reply_and_none_and_an_answer_of_another_shape_fail(folder):
    bodies = {
        "empty": json.dumps({"text": ""}),
        "nothing": json.dumps({"text": None}),
        "another shape": json.dumps({"reply": "It is late."}),
        "not a text": json.dumps({"text": 7}),
        "nothing, no calls": "null",
        "a text": json.dumps({"text": "It is late."}),
    }
    with served(lambda path, headers, body: (200, "application/json", bodies[body["text"]])) as url:
        code, grades = graded(
            folder, ["--http", url], [question(name, forbidden_texts=["x"]) for name in bodies]
        )
    error = f"turn 1 ended in an error without an answer: AgentError: {url}"
    expected = REPLIES | {
        "another shape": f"{error}: no key `text` in the answer; it has: reply",
        "not a text": f"{error}: text: Input should be a valid string",
        "nothing, no calls": f"{error}: expected an object with the key `text`, found None",
    }
    assert (code, {name: reason.removeprefix("conversation: ") for name, (_, reason) in grades.items()}) == (
        1,
        expected,
    )


def test_an_empty_reply_that_is_recorded_or_sent_by_otlp_fails(folder):
    attributes = {
        "spangrade.turn": {"boolValue": True},
        "spangrade.turn.input": {"stringValue": "empty"},
        "spangrade.turn.output": {"stringValue": ""},
        "gen_ai.conversation.id": {"stringValue": "sent"},
    }
    span = {"traceId": "1" * 32, "spanId": "1" * 16, "name": "turn", "kind": 1}
    span |= {"startTimeUnixNano": "1000", "endTimeUnixNano": "2000"}
    span["attributes"] = [{"key": key, "value": value} for key, value in attributes.items()]
    sent = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (folder / "sent.json").write_text(json.dumps(sent))
    (folder / "golden.json").write_text(
        json.dumps({"golden_questions": [question("empty", forbidden_texts=["x"])]})
    )
    assert spangrade("import", "sent.json").code == 0
    done = spangrade("grade", "golden.json", "--format", "json")
    (grade,) = json.loads("\n".join(done.out))["grades"]
    assert (done.code, grade["reason"]) == (1, "conversation: turn 1 has an empty reply")


@pytest.mark.parametrize("reply", ["", None, {"reply": "It is late."}])
def test_in_a_test_an_answer_without_a_reply_does_not_meet_any_text(reply):
    runner = ConversationRunner(lambda text: reply, [UserTurn("Where?"), AgentTurn("*")])
    with pytest.raises(
        (ConversationMismatch, ValueError), match=r"the reply is empty|gave no reply|no key `text`"
    ):
        runner.run_sync()
