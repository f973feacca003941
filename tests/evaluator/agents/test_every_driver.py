"""A table: what an agent does in a turn has the same verdict, whoever drives the agent."""

import json
import textwrap

import pytest
from command_line import run as spangrade
from gemini_standin import gemini_standin
from served_agents import json_answer, served

from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn

# What the agent does with each of the user's texts, and the verdict where `refund` is forbidden.
ROWS = {
    "text alone": "inconclusive",
    "nearly the key": "inconclusive",
    "both keys": "inconclusive",
    "null for calls": "inconclusive",
    "no calls": "passed",
    "forbidden call": "failed",
    "call in a thread": "inconclusive",
    "call of another provider": "inconclusive",
    "empty reply": "failed",
    "blank reply": "failed",
    "nothing": "failed",
    "another shape": "failed",
    "a list": "failed",
    "raises": "failed",
    "raises to the base": "failed",
    "raises to its end": "failed",
    "too slow": "failed",
}
AGENTS = """
    import asyncio
    import time
    from concurrent.futures import ThreadPoolExecutor

    from opentelemetry.sdk.trace import TracerProvider

    import spangrade

    OTHER = TracerProvider().get_tracer("other")
    REFUND = {"name": "refund", "arguments": {}, "result": "done"}
    ANSWERS = {
        "text alone": "It is done.",
        "nearly the key": {"text": "It is done.", "toolCalls": [REFUND]},
        "both keys": {"text": "It is done.", "toolCalls": [REFUND], "tool_calls": []},
        "null for calls": {"text": "It is done.", "tool_calls": None},
        "no calls": {"text": "It is done.", "tool_calls": []},
        "forbidden call": {"text": "It is done.", "tool_calls": [REFUND]},
        "empty reply": "",
        "blank reply": "\u200b\u00ad",
        "nothing": None,
        "another shape": {"reply": "It is done."},
        "a list": ["It is done."],
    }

    class Halt(BaseException):
        pass

    @spangrade.tool
    def refund():
        return "done"

    RAISED = {"raises": ValueError, "raises to the base": Halt, "raises to its end": GeneratorExit}

    def function(text):
        if text in RAISED:
            raise RAISED[text]("no refunds")
        if text == "call in a thread":  # without the turn's context
            with spangrade.agent("shop"), ThreadPoolExecutor(1) as pool:
                pool.submit(refund).result()
        if text == "call of another provider":
            attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "refund"}
            with spangrade.agent("shop"):
                OTHER.start_span("execute_tool refund", attributes=attributes).end()
        if text == "too slow":
            time.sleep(2)
        return ANSWERS.get(text, "It is done.")

    async def coroutine(text):
        return function(text)

    async def in_a_thread(text):
        return await asyncio.to_thread(function, text)

    def generator(text):
        yield function(text)

    async def async_generator(text):
        yield function(text)

    class Agent:
        def __call__(self, text):
            return function(text)
"""
IN_PROCESS = ("function", "coroutine", "in_a_thread", "generator", "async_generator", "Agent")
OPTIONS = ("--timeout", "1.5s", "--wait", "0s")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """The current folder, with agents and golden questions."""
    monkeypatch.chdir(tmp_path)
    questions = [
        {"id": name.replace(" ", "_"), "user_inputs": [name], "forbidden_tools": ["refund"]} for name in ROWS
    ]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    return tmp_path


def write_agents(folder, name):
    """Write the module under a name of its own: one that is imported is not read again."""
    (folder / f"{name}.py").write_text(textwrap.dedent(AGENTS))
    return f"{name}.py"


def verdicts(*arguments):
    done = spangrade("run", *arguments, "golden.json", "--format", "json", *OPTIONS)
    grades = json.loads("\n".join(done.out))["grades"]
    return {one["question_id"].replace("_", " "): one["verdict"] for one in grades}


@pytest.mark.parametrize("driver", IN_PROCESS)
@pytest.mark.short_form("driver", 8)
def test_the_table_of_what_runs_in_this_process(folder, driver):
    agent = write_agents(folder, f"agents_of_{driver}")
    assert verdicts(f"{agent}:{driver}") == ROWS
    again = spangrade("grade", "golden.json", "--format", "json")
    grades = json.loads("\n".join(again.out))["grades"]
    assert {one["question_id"].replace("_", " "): one["verdict"] for one in grades} == ROWS


def answers(folder):
    """Return the answers of the agents, and the function that gives them or raises."""
    module = {}
    exec(compile(textwrap.dedent(AGENTS), "agents.py", "exec"), module)
    return module["function"]


@pytest.mark.exhaustive
def test_the_table_over_http(folder):
    function = answers(folder)

    def respond(path, headers, body):
        try:
            answer = function(body["text"])
        except BaseException as error:  # noqa: BLE001 (some of the agents raise one)
            return 500, "text/plain", str(error)
        return (200, "text/plain", answer) if isinstance(answer, str) else json_answer(answer)

    with served(respond) as url:
        assert verdicts("--http", url) == ROWS


@pytest.mark.exhaustive
def test_the_table_of_a_server_with_the_chat_completions_api(folder):
    function = answers(folder)

    def respond(path, headers, body):
        try:
            answer = function(body["messages"][-1]["content"])
        except BaseException as error:  # noqa: BLE001 (some of the agents raise one)
            return 500, "text/plain", str(error)
        if isinstance(answer, dict) and "reply" in answer:
            return json_answer(answer)
        message = answer if isinstance(answer, dict) else {"text": answer}
        message = {"content": message.get("text"), **message}
        requested = [{"id": "1", "type": "function", "function": {"name": "refund", "arguments": "{}"}}]
        if message.get("tool_calls"):
            message["tool_calls"] = requested
        return json_answer({"choices": [{"message": message}]})

    with served(respond) as url:
        found = verdicts("--openai", url, "--model", "m")
    # A call that the model requests may not have been executed. Messages are read as those of spans are, by
    # either spelling of their calls.
    spelled = {"nearly the key": "failed", "both keys": "failed"}
    assert found == ROWS | spelled | {"forbidden call": "inconclusive"}


def test_the_table_of_the_runner_of_tests():
    function, passed, failed = answers(None), [], {}
    for row in ROWS:
        runner = ConversationRunner(function, [UserTurn(row), AgentTurn("*", [])])
        try:
            runner.run_sync()
            passed.append(row)
        except BaseException as error:  # noqa: BLE001 (some of the agents raise one)
            failed[row] = type(error).__name__
    assert passed == ["no calls"]
    assert failed == dict.fromkeys(ROWS.keys() - {"no calls"}, "ConversationMismatch") | {
        "another shape": "ValueError",
        "a list": "ValueError",
        "raises": "ValueError",
        "raises to the base": "Halt",
        "raises to its end": "GeneratorExit",
    }


@pytest.mark.exhaustive
def test_the_table_of_an_agent_that_yields_events(folder):
    """Such an agent yields its calls, so that a text alone says that there was none."""
    (folder / "events_agent.py").write_text(
        textwrap.dedent(AGENTS)
        + textwrap.dedent("""
        class Events:
            def process_context(self, context):
                yield function(context.get_latest_user_transcript_message())
        """)
    )
    expected = ROWS | {"text alone": "passed", "null for calls": "passed"}
    assert verdicts("events_agent.py:Events") == expected


@pytest.mark.exhaustive
def test_the_table_of_simulated_users_and_of_their_replay(folder, monkeypatch):
    agent = write_agents(folder, "agents_of_users")
    questions = [
        {
            "id": row.replace(" ", "_"),
            "scenario": {"starting_prompt": row, "plan": ["Ask"], "facts": {}, "ends_when": {"max_turns": 2}},
            "forbidden_tools": ["refund"],
        }
        for row in ROWS
    ]
    (folder / "golden.json").write_text(json.dumps({"golden_questions": questions}))
    monkeypatch.setenv("SPANGRADE_CACHE_DIR", str(folder / "cache"))
    monkeypatch.setenv("GEMINI_API_KEY", "key")
    said = json.dumps({"why": "as planned", "plan_part": 1, "ended": "plan_done", "text": ""})
    options = [
        "--user-model",
        "gemini/gemini-2.5-flash",
        "--no-reference",
        "scenario",
        "--no-reference",
        "goal",
    ]
    with gemini_standin() as standin:
        monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", standin.url)
        standin.answer = lambda request: said
        assert verdicts(f"{agent}:function", *options, "--name", "held") == ROWS
        assert verdicts(f"{agent}:function", *options, "--replay", "held") == ROWS
