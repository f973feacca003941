"""Agents in another process: what they get, what is read of their answers, spans that join the session."""

import gzip
import json
from threading import Thread

import pytest
from command_line import run as spangrade
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from served_agents import json_answer, served

import spangrade as sg
from spangrade import ChatAgent, HttpAgent, InputError, RunOptions
from spangrade.tracer.exporter import stored_spans
from spangrade.tracer.store import Store

CALL = {"name": "look_up_order", "arguments": {"order_id": "A-1"}, "result": {"status": "sent"}}


def question(*texts):
    return {
        "id": "where",
        "user_inputs": list(texts),
        "agents_evaluated": ["shop"],
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": "look_up_order", "input_arguments": {"order_id": "A-1"}} for _ in texts
            ]
        },
    }


def test_an_agent_behind_a_url_gets_each_turn_and_answers_with_its_calls_and_state(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [question("one", "two")]}))
    got = []

    def answer(path, headers, body):
        got.append((path, body["turn"], body["text"], body["question_id"], body["session_id"]))
        return json_answer({"text": body["text"].upper(), "tool_calls": [CALL], "state": {"n": body["turn"]}})

    with served(answer) as url:
        done = spangrade("run", "--http", f"{url}/turn", "golden.json", "--agent", "shop")
    assert (done.code, done.out[0]) == (0, "1 session: 1 passed")
    with sg.open() as db:
        (session,) = db
    assert got == [("/turn", n, text, "where", session.session_id) for n, text in ((1, "one"), (2, "two"))]
    assert [turn.final_response for turn in session.turns] == ["ONE", "TWO"]
    assert session.state_variables == {"n": 2}
    assert session.agents == ("shop",)


def test_a_server_with_the_chat_completions_api_gets_the_conversation(tmp_path):
    got = []

    def answer(path, headers, body):
        got.append((path, body["model"], [message["content"] for message in body["messages"]]))
        message = {"role": "assistant", "content": f"answer {len(body['messages'])}"}
        usage = {"prompt_tokens": 1000, "completion_tokens": 100, "total_tokens": 1100}
        return json_answer({"model": "gpt-4o", "choices": [{"message": message}], "usage": usage})

    with served(answer) as url, sg.open(tmp_path / "db.duckdb") as db:
        db.run(ChatAgent(f"{url}/v1", "gpt-4o"), [question("one", "two")])
        (session,) = db
    assert got == [
        ("/v1/chat/completions", "gpt-4o", ["one"]),
        ("/v1/chat/completions", "gpt-4o", ["one", "answer 1", "two"]),
    ]
    assert [turn.final_response for turn in session.turns] == ["answer 1", "answer 3"]
    assert session.usage.input_tokens == 2000
    assert session.cost_usd > 0


def test_spans_that_the_agent_sends_by_itself_join_the_session(tmp_path):
    """Its process has a tracer provider of its own; what it exports is stored as a receiver stores it."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("agent")
    baggage = []

    def answer(path, headers, body):
        context = TraceContextTextMapPropagator().extract(headers)
        baggage.append(headers["baggage"])
        attributes = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "look_up_order"}
        attributes |= {"gen_ai.tool.call.arguments": json.dumps(CALL["arguments"])}
        attributes |= {"gen_ai.tool.call.result": json.dumps(CALL["result"])}
        agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
        with tracer.start_as_current_span("invoke_agent shop", context, attributes=agent):
            tracer.start_span("execute_tool look_up_order", attributes=attributes).end()
        with Store.open(db.path, wait_s=10) as store:
            store.add(stored_spans(exporter.get_finished_spans()))
        return 200, "text/plain", "It is sent."

    with served(answer) as url, sg.open(tmp_path / "db.duckdb") as db:
        run = db.run(HttpAgent(url), [question("where is it")], options=RunOptions(wait="0s"))
        (session,) = db
    assert [str(one.verdict) for one in run.sessions] == ["passed"]
    assert session.session_id_source == "conversation"
    assert f"gen_ai.conversation.id={session.session_id}" in baggage[0]
    assert "spangrade.question_id=where" in baggage[0]
    assert trace.get_tracer_provider() is not provider


@pytest.mark.parametrize(
    ("answered", "problem"),
    [
        ((500, "text/plain", "out of order"), "answered 500: out of order"),
        ((200, "application/json", '{"text": 1}'), "text: Input should be a valid string"),
        ((200, "application/json", "[]"), "expected an object with the key `text`, found []"),
        ((302, "text/plain", "moved"), "answered 302: moved"),
        ((200, "text/plain", "x" * 10_000_001), "answered with more than 10,000,000 bytes"),
        (
            (200, "text/plain", gzip.compress(bytes(11_000_000)), ("content-encoding", "gzip")),
            "answered with more than 10,000,000 bytes",
        ),
        (
            (200, "text/plain", "x", ("content-encoding", "gzip, gzip")),
            "answered in the encoding 'gzip, gzip'; expected gzip or none",
        ),
    ],
    ids=["error", "type", "list", "redirect", "much", "packed", "packed twice"],
)
@pytest.mark.short_form("answered", 3)
@pytest.mark.short_form("problem", 2)
def test_an_answer_that_cannot_be_used_fails_the_session(tmp_path, answered, problem):
    with served(lambda *asked: answered) as url, sg.open(tmp_path / "db.duckdb") as db:
        run = db.run(HttpAgent(url), [question("one", "two")])
        (session,) = db
    assert [str(one.verdict) for one in run.sessions] == ["failed"]
    (error,) = session.errors
    assert error.message.startswith("AgentError: ")
    assert problem in error.message


def test_an_answer_in_a_charset_that_is_none_is_read_as_utf_8(tmp_path):
    with (
        served(lambda *asked: (200, "text/plain; charset=idna", "é")) as url,
        sg.open(tmp_path / "db.duckdb") as db,
    ):
        db.run(HttpAgent(url), [question("one")])
        (session,) = db
    assert [turn.final_response for turn in session.turns] == ["é"]


@pytest.mark.parametrize("status", [200, 401])
@pytest.mark.short_form("status", 2)
def test_no_message_shows_a_key_or_what_may_be_one_in_a_url(tmp_path, monkeypatch, status):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-S3CR3T\n")

    def answer(path, headers, body):
        return status, "application/json", f"no such key: {headers['Authorization']}"

    with served(answer) as url, sg.open(tmp_path / "db.duckdb") as db:
        db.run(ChatAgent(url.replace("://", "://ann:S3CR3T@"), "m"), [question("one")])
        db.run(HttpAgent(f"{url}/turn?key=S3CR3T"), [question("one")])
        messages = [error.message for session in db for error in session.errors]
    assert len(messages) >= 1
    assert not [message for message in messages if "S3CR3T" in message]


def test_a_server_that_cannot_be_reached_ends_the_run_at_the_first_question_and_later_fails_the_session(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    asked = [question("one"), {**question("two"), "id": "later"}, {**question("three"), "id": "last"}]
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": asked}))
    with served(lambda *asked: None) as url:
        pass
    done = spangrade("run", "--http", url, "golden.json")
    problem = f"{url}: cannot be reached: All connection attempts failed"
    assert (done.code, done.out, done.err) == (2, [], [f"spangrade: {problem}"])
    with sg.open() as db:
        assert list(db) == []

    def answer(path, headers, body):
        Thread(target=ending.pop().__exit__, args=(None, None, None)).start()
        return json_answer({"text": "late"})

    ending = [served(answer)]
    url = ending[0].__enter__()
    done = spangrade("run", "--http", url, "golden.json", "--no-references", "--metric", "turns_answered>=1")
    assert (done.code, done.out[0]) == (1, "3 sessions: 1 passed, 2 failed")


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (["golden.json"], "AGENT: expected an agent, here or in the table `run` of the settings"),
        (["golden.json", "--openai", "http://x"], "expected --openai URL and --model NAME together"),
        (["a:b", "golden.json", "--http", "http://x"], "expected one agent: AGENT, --http or --openai"),
        (["golden.json", "--http", "x"], "x: expected a URL with http or https"),
    ],
)
def test_agents_that_cannot_be_used_are_named(tmp_path, arguments, problem):
    done = spangrade("run", *arguments)
    assert done.code == 2
    assert problem in " ".join(" ".join(done.err).replace("│", " ").split())


@pytest.mark.parametrize("url", ["ftp://x", "http://[x", "http://x:99999", "http://", "http://ann:S3CR3T@[x"])
def test_an_agent_is_refused_whose_url_is_not_http(url):
    with pytest.raises(InputError, match="expected a URL with http or https") as raised:
        ChatAgent(url, "m")
    assert "S3CR3T" not in str(raised.value)


@pytest.mark.parametrize("options", [("--http",), ("--model", "m", "--openai")])
@pytest.mark.short_form("options", 2)
def test_a_key_twice_in_an_answer_is_refused(tmp_path, monkeypatch, options):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "golden.json").write_text(json.dumps({"golden_questions": [question("one")]}))
    text = '{"text": "Hi",\n "choices": [{"message": {"content": "a", "content": "b"}}], "text": ""}'
    with served(lambda *_: (200, "application/json", text)) as url:
        assert spangrade("run", *options, url, "golden.json").code == 1
    with sg.open() as db:
        (session,) = db
    assert session.errors[0].message.endswith(': line 2, column 43: the key "content" is in one object twice')
