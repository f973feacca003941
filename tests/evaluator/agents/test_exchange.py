"""What the driver of an agent sees of a turn decides the verdict, whoever drives it."""

import gc
import json
import os
import re
import subprocess
import sys
import textwrap
import threading
import time
from contextlib import ExitStack, contextmanager

import pytest
from command_line import run as spangrade
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from served_agents import json_answer, served

from spangrade import tracer
from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn
from spangrade.tracer.exporter import stored_spans
from spangrade.tracer.store import Store
from spangrade.tracer.store.locks import lock_file
from spangrade.tracer.store.spool import folder_of, has_receiver, lock_of_receiver


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


def write_golden(folder):
    """Write one question, which every reply passes that has no x."""
    (folder / "golden.json").write_text(
        json.dumps({"golden_questions": [question("one", forbidden_texts=["x"])]})
    )


def question(text, **reference):
    return {"id": text, "user_inputs": [text], "reference_data": reference}


RAISING = """
    import asyncio
    import sys

    class UnreadableError(Exception):
        def __str__(self):
            raise RuntimeError("no text")

    class Nameless(type):
        @property
        def __name__(cls):
            raise RuntimeError("no name")

    class NamelessError(Exception, metaclass=Nameless):
        pass

    class Halt(BaseException):
        pass

    RAISED = {
        "unreadable": UnreadableError(),
        "nameless": NamelessError("no"),
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
@pytest.mark.short_form("kind", 2)
def test_whatever_an_agent_raises_fails_its_session_with_type_text_and_place_and_the_run_goes_on(
    folder, kind
):
    agent = write_agent(folder, f"raising_{kind}", RAISING).replace(":answer", f":{kind}")
    names = ["unreadable", "nameless", "base", "cancelled", "interrupt", "exit", "stop", "plain", "fine"]
    code, grades = graded(folder, [agent], [question(name, forbidden_texts=["secret"]) for name in names])
    line = 1 + RAISING.splitlines().index("            raise RAISED[text]")
    raised = {
        "unreadable": "UnreadableError: its text cannot be read (RuntimeError)",
        "nameless": "NamelessError: no",
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
    failed = "turns_answered: turn 1 ended in an error without an answer"
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
            name: ("failed", f"turns_answered: {reason}") if reason else ("passed", "")
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
    assert (
        code,
        {name: reason.removeprefix("turns_answered: ") for name, (_, reason) in grades.items()},
    ) == (
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
    assert (done.code, grade["reason"]) == (1, "turns_answered: turn 1 has an empty reply")


@pytest.mark.parametrize("reply", ["", None, {"reply": "It is late."}])
def test_in_a_test_an_answer_without_a_reply_does_not_meet_any_text(reply):
    runner = ConversationRunner(lambda text: reply, [UserTurn("Where?"), AgentTurn("*")])
    with pytest.raises(
        (ConversationMismatch, ValueError), match=r"the reply is empty|gave no reply|no key `text`"
    ):
        runner.run_sync()


def test_in_a_test_an_exception_that_pytest_cannot_print_is_named_by_another():
    class Nameless(type):
        @property
        def __name__(cls):
            raise RuntimeError("no name")

    class NamelessError(Exception, metaclass=Nameless):
        pass

    def answer(text):
        raise NamelessError("no refunds")

    with pytest.raises(
        RuntimeError, match=r"the agent raised NamelessError: no refunds \(.*test_exchange.py"
    ):
        ConversationRunner(answer, [UserTurn("Where?"), AgentTurn("*")]).run_sync()


SHOP = """
    import spangrade

    @spangrade.tool
    def look_up():
        return "late"

    def answer(text):
        if text == "a text":
            return "It is late."
        if text == "an agent":
            with spangrade.agent("shop"):
                return "It is late."
        if text == "a model":
            with spangrade.llm_call("gemini-2.5-flash", "gcp.gemini"):
                return "It is late."
        if text == "a tool":
            return look_up()
        key, _, value = text.partition(" ")
        return {"text": "It is late.", key: {"none": None, "empty": [], "call": [{"name": "look_up"}]}[value]}
"""
TO_RECORD = "decorate its tools with @spangrade.tool, or return its `tool_calls` ([] for none)"
NO_SPAN = f"what turn 1 called is not recorded; no span has them: {TO_RECORD}"
UNKNOWN = {
    "a text": NO_SPAN,
    "tool_calls none": NO_SPAN,
    "toolCalls call": NO_SPAN.replace(
        "no span has them", "the answer has `toolCalls`, expected `tool_calls`"
    ),
    "tool_call call": NO_SPAN.replace(
        "no span has them", "the answer has `tool_call`, expected `tool_calls`"
    ),
}
CALLED = ("a tool", "tool_calls call")
NOT_CALLED = ("an agent", "a model", "tool_calls empty")
REFERENCES = {
    "forbidden_tools": {"forbidden_tools": ["look_up"]},
    "tool_usage_accuracy": {"reference_tool_interactions": []},
    "no_further_calls": {"no_further_calls": True},
    "trajectory_accuracy": {"reference_trajectory": ["look_up"]},
}


@pytest.mark.parametrize("gate", [*REFERENCES, "an expected call"])
@pytest.mark.short_form("gate", 4)
def test_gates_over_calls_are_inconclusive_where_what_an_agent_called_is_not_recorded(folder, gate):
    expected = {"reference_tool_interactions": [{"tool_name": "look_up"}]}
    if gate in ("no_further_calls", "forbidden_tools"):
        expected = REFERENCES[gate] | {"forbidden_texts": ["x"]}
    elif gate in REFERENCES:
        expected = REFERENCES[gate]
    agent = write_agent(folder, f"shop_{gate}".replace(" ", "_"), SHOP)
    questions = [question(text, **expected) for text in (*UNKNOWN, *CALLED, *NOT_CALLED)]
    code, grades = graded(folder, [agent], questions, "--agent", "shop")
    passes = CALLED if gate in ("an expected call", "trajectory_accuracy") else NOT_CALLED
    name = "tool_usage_accuracy" if gate == "an expected call" else gate
    assert code == 1
    assert {text: verdict for text, (verdict, _) in grades.items() if text not in UNKNOWN} == {
        text: "passed" if text in passes else "failed" for text in (*CALLED, *NOT_CALLED)
    }
    assert {text: grades[text] for text in UNKNOWN} == {
        text: ("inconclusive", f"{name}: {reason}") for text, reason in UNKNOWN.items()
    }


def test_what_is_stored_says_that_calls_were_not_recorded_to_grade_and_to_import(folder):
    agent = write_agent(folder, "shop_alone", SHOP)
    code, grades = graded(folder, [agent], [question("a text", forbidden_tools=["look_up"])])
    assert (code, grades) == (4, {"a text": ("inconclusive", f"forbidden_tools: {NO_SPAN}")})
    (folder / "spangrade.duckdb").rename(folder / "stored.duckdb")
    for command in (["grade", "--db", "stored.duckdb"], ["import", "stored.duckdb"], ["grade"]):
        done = spangrade(command[0], *(["golden.json"] if command[0] == "grade" else []), *command[1:])
        assert done.code == (4 if command[0] == "grade" else 0), done.err


def test_a_test_that_expects_no_call_of_an_agent_that_shows_none_says_how_to_record_them():
    runner = ConversationRunner(lambda text: "It is late.", [UserTurn("Where?"), AgentTurn("*", [])])
    with pytest.raises(
        ConversationMismatch, match=r"the tool calls are not known; no span has them: decorate"
    ):
        runner.run_sync()


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"text": "Late."}, "inconclusive"),
        ({"text": "Late.", "tool_calls": None}, "inconclusive"),
        ({"text": "Late.", "functionCalls": []}, "inconclusive"),
        ({"text": "Late.", "tool_calls": []}, "passed"),
        ({"choices": [{"message": {"content": "Late."}}]}, "inconclusive"),
        ({"choices": [{"message": {"content": "Late.", "tool_calls": []}}]}, "passed"),
    ],
)
@pytest.mark.short_form("answer", 3)
@pytest.mark.short_form("verdict", 2)
def test_over_http_calls_are_known_if_the_answer_has_them(folder, answer, verdict):
    with served(lambda *asked: json_answer(answer)) as url:
        agent = ["--openai", url, "--model", "m"] if "choices" in answer else ["--http", url]
        code, grades = graded(
            folder, agent, [question("Where?", forbidden_tools=["look_up"])], "--wait", "0s"
        )
    ((found, reason),) = grades.values()
    assert (code, found) == ({"passed": 0, "inconclusive": 4}[verdict], verdict)
    assert verdict == "passed" or "answer with `tool_calls` ([] for none), or send its spans" in reason


@pytest.mark.parametrize(
    ("kind", "content", "verdict"),
    [
        ("Application/JSON", '{"text": "Late.", "tool_calls": []}', "passed"),
        ("text/html", '{"text": "Late.", "tool_calls": [{"name": "look_up"}]}', "failed"),
        ("text/plain", '{"text": "", "tool_calls": []}', "failed"),
        ("text/plain", '{"text": "", "text": "Late.", "tool_calls": []}', "failed"),
        ("text/plain", '{"order": 7}', "inconclusive"),
        ("text/plain", "{Late}", "inconclusive"),
    ],
)
@pytest.mark.short_form("kind", 2)
@pytest.mark.short_form("content", 3)
def test_over_http_an_object_with_a_text_is_read_whatever_its_content_type_is(folder, kind, content, verdict):
    with served(lambda *asked: (200, kind, content)) as url:
        asked = [question("Where?", forbidden_tools=["look_up"])]
        _, grades = graded(folder, ["--http", url], asked, "--wait", "0s")
    assert grades["Where?"][0] == verdict


@pytest.mark.parametrize("call", ["look_up", {"id": "1", "type": "function"}, {"function": {"name": ""}}])
@pytest.mark.short_form("call", 4)
def test_a_requested_call_without_a_name_is_not_none(folder, call):
    message = {"content": "Late.", "tool_calls": [call]}
    with served(lambda *asked: json_answer({"choices": [{"message": message}]})) as url:
        asked = [question("Where?", forbidden_tools=["look_up"])]
        _, grades = graded(folder, ["--openai", url, "--model", "m"], asked, "--wait", "0s")
    assert grades["Where?"][0] == "failed"
    assert "expected a chat completion, found" in grades["Where?"][1]


LISTING = """
    import spangrade

    ANSWERS = {
        "listed": {"tool_calls": [{"name": "look_up"}, {"name": "refund"}]},
        "other key": {"tool_calls": [], "toolCalls": [{"name": "refund"}]},
        "recorded": {"tool_calls": [{"name": "look_up"}]},
    }

    @spangrade.tool
    def look_up():
        return "late"

    def answer(text):
        with spangrade.agent("shop"):
            look_up()
        return {"text": "It is late.", **ANSWERS[text]}
"""


def test_a_call_that_the_answer_lists_counts_beside_those_of_spans(folder):
    agent = write_agent(folder, "listing_agent", LISTING)
    texts = ("listed", "other key", "recorded")
    reference = {"forbidden_tools": ["refund"], "at_most": {"look_up": 1}}
    _, grades = graded(folder, [agent], [question(text, **reference) for text in texts], "--wait", "0s")
    expected = {"listed": "failed", "other key": "inconclusive", "recorded": "passed"}
    assert {text: verdict for text, (verdict, _) in grades.items()} == expected
    again = json.loads("\n".join(spangrade("grade", "golden.json", "--format", "json").out))["grades"]
    assert {one["question_id"]: one["verdict"] for one in again} == expected


def test_a_reply_that_is_not_to_be_recorded_is_not_none(folder, monkeypatch):
    agent = write_agent(folder, "listing_withheld", LISTING)
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "false")
    code, grades = graded(folder, [agent], [question("recorded", forbidden_tools=["refund"])], "--wait", "0s")
    assert (code, grades) == (0, {"recorded": ("passed", "")})


SLOW = """
    import asyncio
    import time

    async def answer(text):
        if text == "blocks":
            time.sleep(1.3)
        if text == "swallows":
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                return "It is late."
        if text == "goes on":
            until = time.monotonic() + 60
            while time.monotonic() < until:
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass
        await asyncio.sleep(0.05)
        return "It is late."
"""


def test_the_seconds_of_the_turn_decide_and_an_agent_that_goes_on_is_left_behind(folder):
    agent = write_agent(folder, "slow_agent", SLOW)
    texts = ["blocks", "swallows", "goes on", "in time"]
    options = ["--timeout", "1s", "--concurrency", "4"]
    started = time.monotonic()
    code, grades = graded(
        folder, [agent], [question(text, forbidden_texts=["x"]) for text in texts], *options
    )
    assert time.monotonic() - started < 50
    took = (
        r"turns_answered: turn 1 ended in an error without an answer: AgentTimeoutError: it took \d\.\d s, "
    )
    took += r"expected at most 1 s \(the setting run.timeout\)"
    left_behind = "; cancelled, it had not ended after 1 s more, and was left behind"
    assert (code, {text: verdict for text, (verdict, _) in grades.items()}) == (
        1,
        {"blocks": "failed", "swallows": "failed", "goes on": "failed", "in time": "passed"},
    )
    for text, more in (("blocks", ""), ("swallows", ""), ("goes on", left_behind)):
        assert re.fullmatch(took + more, grades[text][1]), grades[text]


LATE = """
    import contextvars
    import threading
    import time

    import spangrade
    from opentelemetry import trace

    @spangrade.tool
    def refund():
        time.sleep(0.1)

    def later(pause_s):
        time.sleep(pause_s)
        refund()

    def answer(text):
        with spangrade.agent("shop"):
            if text in ("later", "running"):
                pause_s = 0.3 if text == "later" else 0
                context = contextvars.copy_context()
                threading.Thread(target=context.run, args=(later, pause_s), daemon=True).start()
                time.sleep(0.05)
            if text in ("never ended", "raises"):
                spangrade.tool("refund").start()
            if text == "raises":
                raise ValueError("no refunds")
            if text == "connection":
                trace.get_tracer("http").start_span("GET", kind=trace.SpanKind.CLIENT)
            return "It is done."
"""


def test_calls_after_the_reply_are_captured_and_one_that_never_ends_is_inconclusive(folder):
    agent = write_agent(folder, "late_agent", LATE)
    texts = ("later", "running", "never ended", "raises", "connection")
    code, grades = graded(folder, [agent], [question(text, forbidden_tools=["refund"]) for text in texts])
    verdict, reason = grades.pop("raises")
    assert verdict == "failed"
    assert "ended in an error without an answer: ValueError: no refunds (late_agent.py:" in reason
    called = ("failed", "forbidden_tools: not expected: refund{}")
    never = "started and never ended: execute_tool refund; of the rest"
    unknown = f"turns_answered: {never}: as expected; forbidden_tools: {never}: none"
    assert (code, grades) == (
        1,
        {
            "later": called,
            "running": called,
            "never ended": ("inconclusive", unknown),
            "connection": ("passed", ""),
        },
    )  # fmt: skip


IN_THREADS = """
    import threading

    import spangrade

    @spangrade.tool
    def refund():
        return "done"

    def answer(text):
        with spangrade.agent("shop"):
            if text == "later":
                threading.Timer(0.3, refund).start()
            if text == "slow":
                threading.Event().wait(0.6)
            return "It is done."
"""


def test_a_call_after_the_reply_in_a_thread_of_its_own_may_be_of_the_turn_that_started_the_thread(folder):
    agent = write_agent(folder, "agent_in_threads", IN_THREADS)
    texts = ("before", "later", "fine", "slow")
    code, grades = graded(folder, [agent], [question(text, forbidden_tools=["refund"]) for text in texts])
    expected = {"before": "passed", "later": "inconclusive", "fine": "passed", "slow": "inconclusive"}
    assert (code, {text: verdict for text, (verdict, _) in grades.items()}) == (4, expected)


def test_in_a_test_a_call_that_has_not_ended_with_the_reply_is_not_none(folder):
    def answer(text):
        tracer.tool("refund").start()
        return "It is done."

    runner = ConversationRunner(answer, [UserTurn("Where?"), AgentTurn("*", [])])
    with pytest.raises(ConversationMismatch, match="started and never ended: execute_tool refund"):
        runner.run_sync()


@contextmanager
def sending(folder, pause_s, answer):
    """Serve an agent that stores spans of its own, a moment after its answer, as a receiver does."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    own = provider.get_tracer("agent")
    threads = []

    def send(context):
        time.sleep(pause_s)
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
        attributes |= {"gen_ai.tool.call.arguments": '{"order": 1}', "gen_ai.tool.call.result": '"done"'}
        own.start_span("execute_tool refund", context, attributes=attributes).end()
        with Store.open(folder / "spangrade.duckdb", wait_s=10) as store:
            store.add(stored_spans(exporter.get_finished_spans()))

    def respond(path, headers, body):
        if pause_s is not None:
            context = TraceContextTextMapPropagator().extract(headers)
            threads.append(threading.Thread(target=send, args=(context,)))
            threads[-1].start()
        return json_answer(answer)

    with served(respond) as url:
        yield url
        for thread in threads:
            thread.join()


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("pause_s", "is_received", "verdict"),
    [(0.4, True, "failed"), (None, True, "inconclusive"), (None, False, "inconclusive")],
)
@pytest.mark.short_form("pause_s", 2)
@pytest.mark.short_form("is_received", 2)
def test_spans_of_an_agent_elsewhere_are_awaited_together_where_a_receiver_writes(
    folder, pause_s, is_received, verdict
):
    questions = [question(text, forbidden_tools=["refund"]) for text in ("one", "two")]
    with ExitStack() as stack:
        url = stack.enter_context(sending(folder, pause_s, {"text": "It is done."}))
        if is_received:
            held = lock_file(lock_of_receiver(folder_of(folder / "spangrade.duckdb")))
            stack.callback(os.close, held)
        options = ["--wait", "10s" if pause_s else "0.1s"] if is_received else []
        _, grades = graded(folder, ["--http", url], questions, *options)
        assert has_receiver(folder / "spangrade.duckdb") is is_received  # else nothing is awaited
    assert {text: found for text, (found, _) in grades.items()} == {"one": verdict, "two": verdict}


def test_an_answered_call_that_also_has_a_span_counts_once(folder):
    calls = [{"name": "refund", "arguments": {"order": 1}}, {"name": "look_up", "arguments": {}}]
    expected = [{"tool_name": "refund", "input_arguments": {"order": 1}}, {"tool_name": "look_up"}]
    with sending(folder, 0, {"text": "It is done.", "tool_calls": calls}) as url:
        options = ["--metric", "tools:precision>=1", "--metric", "tools:recall>=1"]
        code, _ = graded(folder, ["--http", url], [question("one", reference_tool_interactions=expected)])
    done = spangrade("grade", "golden.json", *options)
    assert (code, done.code) == (0, 0), done.out


ODD = """
    import asyncio
    import os
    import sys

    class Broken:
        def __init__(self):
            raise ValueError("no model")

        def __call__(self, text):
            return "It is done."

    async def ends(text):
        async def end():
            sys.exit(0)

        task = asyncio.create_task(end())
        await asyncio.sleep(0.1)
        return "It is done."

    async def cancels(text):
        for task in asyncio.all_tasks():
            task.cancel()

    async def stops(text):
        asyncio.get_running_loop().stop()

    def ends_at_once(text):
        os._exit(0)

    def moves(text):
        os.chdir("/")
        return "It is done."
"""


def test_an_agent_whose_class_cannot_be_made_fails_its_sessions(folder):
    agent = write_agent(folder, "odd_class", ODD).replace(":answer", ":Broken")
    code, grades = graded(folder, [agent], [question("one", forbidden_texts=["x"])])
    place = "odd_class.py:8"
    reason = f"turns_answered: turn 1 ended in an error without an answer: ValueError: no model ({place})"
    assert (code, grades) == (1, {"one": ("failed", reason)})


@pytest.mark.parametrize(
    ("name", "what"),
    [
        ("ends", "ended the process, with 0"),
        ("cancels", "cancelled the tasks of the run"),
        ("stops", "stopped the event loop of the run"),
    ],
)
@pytest.mark.short_form("name", 2)
def test_an_agent_that_ends_the_run_does_not_end_it_as_passed(folder, name, what):
    agent = write_agent(folder, f"odd_{name}", ODD).replace(":answer", f":{name}")
    write_golden(folder)
    done = spangrade("run", agent, "golden.json")
    gc.collect()  # asyncio names a task whose exception nobody read when it is collected: not in another test
    line = f"spangrade: the agent {what}: --resume asks the questions that are left"
    assert (done.code, done.err[-1]) == (2, line)


def test_what_an_agent_does_to_the_whole_process_makes_no_run_pass(folder):
    write_agent(folder, "odd_process", ODD)
    write_golden(folder)
    code = {}
    for name in ("ends_at_once", "moves"):
        command = [sys.executable, "-m", "spangrade", "run", f"odd_process.py:{name}", "golden.json"]
        code[name] = subprocess.run(command, cwd=folder, check=False, capture_output=True).returncode
    assert code == {"ends_at_once": 2, "moves": 0}
    off = {**os.environ, "OTEL_SDK_DISABLED": "true"}
    done = subprocess.run(command, cwd=folder, check=False, capture_output=True, text=True, env=off)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith(
        "spangrade: the tracer provider of the agent's process did not record a turn"
    )


def test_an_agent_whose_module_raises_is_named_with_what_it_raises(folder):
    (folder / "odd_module.py").write_text("def answer(text):\n    return text\n\n1 / 0\n")
    write_golden(folder)
    done = spangrade("run", "odd_module.py:answer", "golden.json")
    problem = "odd_module.py:answer: its module raises ZeroDivisionError: division by zero (odd_module.py:4)"
    assert (done.code, done.err) == (2, [f"spangrade: {problem}"])
