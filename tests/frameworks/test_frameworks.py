"""The same conversation with agents of real frameworks, whose models are scripted, and with a function."""

import asyncio
import json

import pytest
from weather import FAILURES, HELD, OPENING, QUESTION, expected, get_weather, script

import spangrade
from spangrade import configure, session
from spangrade.evaluator.conversation_runner import ConversationMismatch, ConversationRunner
from spangrade.evaluator.derive import load, update
from spangrade.evaluator.judge import Judgement
from spangrade.evaluator.turn import AgentTurn, ToolCall, UserTurn
from spangrade.tracer import frameworks
from spangrade.tracer.store import Store


class ExactJudge:
    """Asked only where texts are not the same: they do not mean the same here."""

    name = "exact"

    async def ask(self, question):
        return Judgement(False, None, "another text")


def plain_function(seen):
    def agent(text, messages):
        seen.append([message["content"] for message in messages] + [text])
        name, arguments = script(text, None)
        result = get_weather(**arguments)
        return AgentTurn(script(text, result), [ToolCall(name, arguments, result)])

    return agent


def adk_runner(seen):
    pytest.importorskip("google.adk", reason="google-adk is not installed: the group `frameworks` has it")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Scripted(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            parts = [part for content in llm_request.contents for part in content.parts]
            texts = [part.text for part in parts if part.text]
            last = parts[-1].function_response
            asked = next(
                c.parts[0].text
                for c in reversed(llm_request.contents)
                if c.parts[0].text and c.role == "user"
            )
            if last is None:
                seen.append(texts)
            answer = script(asked, last.response if last else None)
            part = (
                types.Part(text=answer)
                if isinstance(answer, str)
                else types.Part.from_function_call(name=answer[0], args=answer[1])
            )
            yield LlmResponse(content=types.Content(role="model", parts=[part]))

    agent = LlmAgent(name="weather", model=Scripted(model="scripted"), tools=[get_weather])
    return InMemoryRunner(agent=agent, app_name="weather")


def pydantic_ai_agent(seen, *, instrument):
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: the group `frameworks` has it")
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelResponse, TextPart, ToolCallPart
    from pydantic_ai.models.function import FunctionModel

    def scripted(messages, info):
        parts = [part for message in messages for part in message.parts]
        asked = [part.content for part in parts if part.part_kind == "user-prompt"][-1]
        last = parts[-1]
        result = last.content if last.part_kind == "tool-return" else None
        if result is None:
            seen.append([part.content for part in parts if part.part_kind in {"user-prompt", "text"}])
        answer = script(asked, result)
        part = TextPart(answer) if isinstance(answer, str) else ToolCallPart(*answer)
        return ModelResponse(parts=[part])

    agent = Agent(FunctionModel(scripted), name="weather", tools=[get_weather])
    agent.instrument = instrument
    return agent


def langgraph_graph(seen, *, checkpointer=None):
    pytest.importorskip("langgraph", reason="langgraph is not installed: the group `frameworks` has it")
    from langchain_core.language_models import BaseChatModel
    from langchain_core.messages import AIMessage
    from langchain_core.outputs import ChatGeneration, ChatResult
    from langchain_core.tools import tool
    from langgraph.graph import START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    class Scripted(BaseChatModel):
        _llm_type = "scripted"

        def _generate(self, messages, stop=None, run_manager=None, **kwargs):
            asked = [message.content for message in messages if message.type == "human"][-1]
            last = messages[-1]
            if last.type == "human":
                seen.append([m.content for m in messages if m.type in {"human", "ai"} and m.content])
            answer = script(asked, last.content if last.type == "tool" else None)
            if isinstance(answer, str):
                message = AIMessage(answer)
            else:
                call = {"name": answer[0], "args": answer[1], "id": f"call-{len(messages)}"}
                message = AIMessage("", tool_calls=[call])
            return ChatResult(generations=[ChatGeneration(message=message)])

    model = Scripted()

    def respond(state):
        return {"messages": [model.invoke(state["messages"])]}

    graph = StateGraph(MessagesState)
    graph.add_node("respond", respond)
    graph.add_node("tools", ToolNode([tool(get_weather)]))
    graph.add_edge(START, "respond")
    graph.add_conditional_edges("respond", tools_condition)
    graph.add_edge("tools", "respond")
    return graph.compile(checkpointer=checkpointer, name="weather")


def langgraph_with_checkpointer(seen):
    memory = pytest.importorskip("langgraph.checkpoint.memory", reason="langgraph is not installed")
    return langgraph_graph(seen, checkpointer=memory.InMemorySaver())


def openai_agent(seen):
    agents = pytest.importorskip(
        "agents", reason="openai-agents is not installed: the group `frameworks` has it"
    )
    from openai.types import responses

    agents.set_tracing_disabled(True)

    class Scripted(agents.Model):
        async def get_response(self, system_instructions, input, *others, **named):  # noqa: A002 (its name)
            items = [item if isinstance(item, dict) else item.model_dump() for item in input]
            texts = [_text_of(item) for item in items if item.get("role")]
            last = items[-1].get("output")
            if last is None:
                seen.append(texts)
            answer = script(_text_of([item for item in items if item.get("role") == "user"][-1]), last)
            if isinstance(answer, str):
                text = responses.ResponseOutputText(type="output_text", text=answer, annotations=[])
                made = responses.ResponseOutputMessage(
                    id="m", role="assistant", status="completed", type="message", content=[text]
                )
            else:
                made = responses.ResponseFunctionToolCall(
                    name=answer[0],
                    arguments=json.dumps(answer[1]),
                    call_id=f"call-{len(items)}",
                    type="function_call",
                )
            return agents.ModelResponse(output=[made], usage=agents.Usage(), response_id=None)

        def stream_response(self, *others, **named):
            raise NotImplementedError

    def looked_up(location: str, units: str = "celsius", forecast: str = "now") -> str:
        return json.dumps(get_weather(location, units, forecast))

    tool = agents.function_tool(looked_up, name_override="get_weather", strict_mode=False)
    return agents.Agent(name="weather", model=Scripted(), tools=[tool])


def _text_of(item):
    content = item["content"]
    return content if isinstance(content, str) else "".join(part["text"] for part in content)


@pytest.fixture
def instrumented_langchain():
    instrumentation = pytest.importorskip(
        "openinference.instrumentation.langchain", reason="openinference-instrumentation-langchain is missing"
    )
    instrumentation.LangChainInstrumentor().instrument()
    yield
    instrumentation.LangChainInstrumentor().uninstrument()


AGENTS = {
    "function": plain_function,
    "adk": adk_runner,
    "pydantic-ai": lambda seen: pydantic_ai_agent(seen, instrument=True),
    "pydantic-ai without spans": lambda seen: pydantic_ai_agent(seen, instrument=False),
    "langgraph without spans": langgraph_graph,
    "langgraph with a checkpointer": langgraph_with_checkpointer,
    "langgraph": langgraph_graph,
    "openai-agents": openai_agent,
}


@pytest.fixture(params=AGENTS)
def agent(request):
    """An agent of each kind; `agent.seen` holds the texts that its model was given, a list a turn."""
    if request.param == "langgraph":
        request.getfixturevalue("instrumented_langchain")
    seen = []
    made = AGENTS[request.param](seen)
    return made, seen


async def test_every_kind_of_agent_holds_the_conversation(agent):
    assert await ConversationRunner(agent[0], expected(), judge=ExactJudge()).run() == HELD


@pytest.mark.parametrize("failure", FAILURES)
async def test_every_kind_of_agent_fails_where_the_function_does(agent, failure):
    conversation, path = FAILURES[failure]
    with pytest.raises(ConversationMismatch) as raised:
        await ConversationRunner(agent[0], conversation, judge=ExactJudge()).run()
    assert [mismatch.path for mismatch in raised.value.similarity.mismatches] == [path]


async def test_every_kind_of_agent_knows_what_was_said_before(agent):
    made, seen = agent
    runner = ConversationRunner(made, expected(), initial_agent_message=OPENING, judge=ExactJudge())
    opening, *held = await runner.run()
    assert (opening, held) == (AgentTurn(OPENING), HELD)
    question, now, then = HELD[0].text, HELD[1].text, HELD[2].text
    assert seen == [[OPENING, question], [OPENING, question, now, then]]


async def test_runs_begin_anew_and_do_not_mix(agent):
    runners = [ConversationRunner(agent[0], expected(), judge=ExactJudge()) for _ in range(4)]
    assert await asyncio.gather(*(runner.run() for runner in runners)) == [HELD] * 4


@pytest.mark.parametrize("kind", ["adk", "pydantic-ai", "langgraph"])
async def test_a_kept_run_is_the_session_that_the_frameworks_spans_tell_of(
    kind, request, tmp_path, monkeypatch
):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "span_and_event")
    if kind == "langgraph":
        request.getfixturevalue("instrumented_langchain")
    db = tmp_path / "spans.duckdb"
    await ConversationRunner(AGENTS[kind]([]), expected(), judge=ExactJudge(), store=db).run()
    with Store.open(db) as store:
        update(store)
        [session] = load(store)
    question, now, then, tomorrow = HELD
    assert [(turn.user_input, turn.final_response) for turn in session.turns] == [
        (question.text, now.text),
        (then.text, tomorrow.text),
    ]
    assert [(t.turn, t.tool_name, t.input_arguments, t.output, t.ok) for t in session.tool_interactions] == [
        (turn, call.name, call.arguments, call.result, True)
        for turn, answer in enumerate((now, tomorrow), 1)
        for call in answer.tool_calls
    ]


@pytest.mark.parametrize("kind", ["pydantic-ai without spans", "openai-agents"])
def test_an_agent_whose_spans_name_none_has_the_name_of_the_object(kind, tmp_path):
    asked = {"id": "one", "user_inputs": [QUESTION], "agents_evaluated": ["weather"]}
    with spangrade.open(tmp_path / "db.duckdb") as db:
        run = db.run(AGENTS[kind]([]), [{**asked, "reference_data": {}}], gates="agent_routing>=1")
    assert [(str(one.verdict), one.reason) for one in run.sessions] == [("passed", "")]


async def ask_adk(question):
    from google.genai import types

    runner = adk_runner([])
    runner.auto_create_session = True
    message = types.Content(role="user", parts=[types.Part(text=question)])
    async for _ in runner.run_async(user_id="someone", session_id="adk-1", new_message=message):
        pass


async def ask_pydantic_ai(question):
    await pydantic_ai_agent([], instrument=True).run(question)


@pytest.mark.parametrize("ask", [ask_adk, ask_pydantic_ai])
async def test_an_id_that_the_application_gave_comes_before_the_frameworks(ask, tmp_path):
    db = tmp_path / "spans.duckdb"
    provider = configure(db=db)
    with session("MY-CHAT", user="u-1"):
        await ask(QUESTION)
    with session("MY-CHAT"):
        await ask(QUESTION)
    provider.force_flush()
    with Store.open(db) as store:
        update(store)
        [kept] = load(store)
    assert (kept.session_id, kept.user_id, len(kept.turns)) == ("MY-CHAT", "u-1", 2)


@pytest.mark.parametrize("instrument", [True, False])
async def test_pydantic_ais_output_tool_is_the_answer_and_no_tool_call(instrument):
    pytest.importorskip("pydantic_ai", reason="pydantic-ai is not installed: the group `frameworks` has it")
    from pydantic_ai import Agent
    from pydantic_ai.models.test import TestModel

    agent = Agent(TestModel(), output_type=dict[str, int], tools=[get_weather])
    agent.instrument = instrument
    _, answer = await ConversationRunner(agent, [*expected()[:1], AgentTurn("*")]).run()
    assert [call.name for call in answer.tool_calls] == ["get_weather"]
    assert isinstance(json.loads(answer.text), dict)


@pytest.mark.parametrize("capture", ["no_content", "span_and_event"])
async def test_adks_handoff_to_another_agent_is_no_tool_call_unless_it_is_expected(capture, monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", capture)
    pytest.importorskip("google.adk", reason="google-adk is not installed: the group `frameworks` has it")
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.runners import InMemoryRunner
    from google.genai import types

    class Front(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            to = {"agent_name": "back"}
            part = types.Part.from_function_call(name="transfer_to_agent", args=to)
            yield LlmResponse(content=types.ModelContent(part))

    class Back(BaseLlm):
        async def generate_content_async(self, llm_request, stream=False):
            yield LlmResponse(content=types.ModelContent("Back here."))

    def runner():
        back = LlmAgent(name="back", model=Back(model="scripted"))
        front = LlmAgent(name="front", model=Front(model="scripted"), sub_agents=[back])
        return InMemoryRunner(agent=front, app_name="office")

    transfer = ToolCall("transfer_to_agent", {"agent_name": "back"})
    for calls in ([], [transfer]):
        await ConversationRunner(runner(), [UserTurn("Hello"), AgentTurn("Back here.", calls)]).run()


async def test_a_framework_with_spans_of_its_own_records_them_also_inside_a_function(tmp_path, monkeypatch):
    made = pydantic_ai_agent([], instrument=None)
    monkeypatch.setattr(type(made), "_instrument_default", False)
    for name in ("_set_here", "_done"):  # as in a process in which nothing was switched on
        monkeypatch.setattr(frameworks, name, {})

    async def answer(text):
        return (await made.run(text)).output

    question = {
        "id": "q1",
        "user_inputs": [HELD[0].text],
        "agents_evaluated": ["weather"],
        "reference_data": {
            "reference_tool_interactions": [
                {"tool_name": call.name, "input_arguments": call.arguments} for call in HELD[1].tool_calls
            ]
        },
    }
    golden = tmp_path / "golden.json"
    golden.write_text(json.dumps({"golden_questions": [question]}))
    db = spangrade.Database(tmp_path / "s.duckdb")
    assert db.run(answer, golden).exit_code == spangrade.ExitCode.PASSED
    [session] = db.sessions()
    assert (session.agents, len(session.llm_calls)) == (("weather",), 2)
