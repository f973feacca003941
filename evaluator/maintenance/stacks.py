"""The settings that make each stack record more: one row per stack, by what a recording lacks.

Each setting is documented by its stack, or is in its source: docs/dialects.md has the links. Where a stack
has None, it has no setting: it records that always, or it cannot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple

from spangrade.converters.spans.registry import FALLBACK, dialects
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import Span

Lack = Literal["content", "conversation", "agents", "tools", "model_calls", "tokens", "state"]


class Stack(NamedTuple):
    """The settings of one stack.

    `content` records messages, arguments and results, `conversation` the conversation's id, `agents` their
    names, `tools` a span per tool call, `model_calls` a span per model call, `tokens` their counts, `state`
    the state variables.
    """

    name: str
    content: str | None = None
    conversation: str | None = None
    agents: str | None = None
    tools: str | None = None
    model_calls: str | None = None
    tokens: str | None = None
    state: str | None = None


_STATE = "call spangrade.set_state(), or record a spangrade.state event on any span"
_STREAMED = 'ask for usage in streamed answers: stream_options={"include_usage": True}'
_GENAI_CONTENT = (
    f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental (older instrumentations: "
    f"{CAPTURE_CONTENT_VARIABLE}=true, and import the logs too)"
)
_BY_HAND = (
    "put gen_ai.input.messages and gen_ai.output.messages, or gen_ai.tool.call.arguments and "
    "gen_ai.tool.call.result, on the spans"
)
# What can be done in any stack: a span, or an attribute of one.
ANY = Stack(
    name="the GenAI conventions",
    content=_GENAI_CONTENT,
    conversation="put gen_ai.conversation.id on the spans",
    agents="record gen_ai.agent.name on a span around each agent's run",
    tools="record an execute_tool span around each tool call",
    model_calls="instrument the model client, or switch on the framework's own spans of model calls",
    tokens="record gen_ai.usage.input_tokens and gen_ai.usage.output_tokens; for streamed answers "
    "some model clients report usage only on request",
    state=_STATE,
)
_OPENAI_TRACES = "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0"
_CLIENT = Stack(
    name="a client of a model's API",
    content=_GENAI_CONTENT,
    conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
    agents="run each agent in spangrade.agent(NAME), or record gen_ai.agent.name on a span around it",
    tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
    tokens=_STREAMED,
)
# By dialect, or by the beginning of a scope's name, which comes first: several stacks share a dialect.
STACKS: Mapping[str, Stack] = {
    "adk": Stack(
        name="ADK",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT, and do not set "
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false",
        state="import the sessions of ADK's session service too (GET /apps/APP/users/USER/sessions/ID), or "
        "call spangrade.set_state()",
    ),
    "ag2": Stack(
        name="AG2",
        content="do not set TelemetryMiddleware(capture_content=False); before 1.0: "
        "instrument_llm_wrapper(capture_messages=True)",
        conversation='give it: TelemetryMiddleware(span_attributes={"gen_ai.conversation.id": ID})',
        agents="name each agent: TelemetryMiddleware(agent_name=…)",
        tools="give each agent the middleware; before 1.0: instrument_agent(), instrument_pattern()",
        model_calls="give each agent the middleware, sub-agents too; before 1.0: instrument_llm_wrapper()",
        tokens=_STREAMED,
    ),
    "agent_framework": Stack(
        name="MS Agent Framework",
        content="set ENABLE_SENSITIVE_DATA=true",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
    ),
    "autogen": Stack(
        name="AutoGen",
        content="unset AUTOGEN_DISABLE_RUNTIME_TRACING",
        model_calls="unset AUTOGEN_DISABLE_RUNTIME_TRACING: the runtime's messages have the model's usage",
        tokens=_STREAMED,
    ),
    "bedrock": _CLIENT._replace(
        name="Bedrock by OpenTelemetry",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=true, and import the logs too",
        tokens=None,
    ),
    "claude-code": Stack(
        name="Claude Agent SDK",
        content="set OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1, "
        "and import the logs too",
        tools="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp, and import the "
        "logs too",
        model_calls="set CLAUDE_CODE_ENHANCED_TELEMETRY_BETA=1 and OTEL_TRACES_EXPORTER=otlp",
    ),
    "genkit": Stack(
        name="Genkit",
        conversation="use the chat of ai.createSession({ sessionId }), which sets genkit:sessionId",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
    ),
    "haystack": Stack(
        name="Haystack",
        content="set HAYSTACK_CONTENT_TRACING_ENABLED=true",
        conversation="it records no conversation: run each turn in spangrade.session(ID)",
        agents="it names no agents: run each agent in spangrade.agent(NAME)",
    ),
    "langchain": Stack(
        name="LangChain by OpenTelemetry",
        content=_GENAI_CONTENT,
        conversation='pass config={"configurable": {"thread_id": …}} to the graph',
        agents="give the agent a name: create_agent(name=…)",
        tokens="set stream_usage=True on the chat model",
    ),
    "langfuse": Stack(
        name="Langfuse",
        content="set input and output on the observations, and do not set "
        "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
        conversation="set the session with propagate_attributes(session_id=…), or update_trace(session_id=…)",
        agents='record the agent as an observation of type agent: @observe(as_type="agent")',
        tools='record the tool as an observation of type tool: @observe(as_type="tool")',
        model_calls="wrap the model client (langfuse.openai, observeOpenAI), or record generations: "
        '@observe(as_type="generation")',
        tokens="set usage_details on the generation; " + _STREAMED,
    ),
    "langsmith": Stack(
        name="LangSmith",
        content="unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS",
        conversation="put thread_id or session_id into the metadata of the run's config",
        agents="give the agent a name: create_agent(name=…)",
        tools='decorate the tool with @traceable(run_type="tool")',
        model_calls='wrap the client: wrap_openai(), or @traceable(run_type="llm")',
        tokens="set usage_metadata on the run; with LangChain, stream_usage=True on the chat model",
    ),
    "litellm": Stack(
        name="LiteLLM",
        content="do not set litellm.turn_off_message_logging, nor message_logging=False",
        conversation="it records no conversation: run each turn in spangrade.session(ID)",
        agents="it knows no agents: run each agent in spangrade.agent(NAME)",
        tools="it runs no tools: run each tool in spangrade.tool(NAME)",
        tokens=_STREAMED,
    ),
    "livekit": Stack(
        name="LiveKit",
        content="keep transcripts in the session's recording options: session.start(record=True)",
        conversation='put session.id into set_tracer_provider(provider, metadata={"session.id": …})',
        model_calls="use LiveKit's own model nodes: a node that you override records no llm_request",
    ),
    "logfire": Stack(
        name="Logfire's model clients",
        content="let logfire.configure(scrubbing=…) keep request_data and response_data",
        conversation='run each turn in logfire.set_baggage(**{"session.id": …})',
        agents="run each agent in spangrade.agent(NAME), or in a logfire.span with gen_ai.agent.name",
        tools="run each tool in spangrade.tool(NAME), or record an execute_tool span around it",
        tokens=_STREAMED,
    ),
    "logfire-agents": Stack(
        name="the OpenAI Agents SDK by Logfire",
        content=f"unset {_OPENAI_TRACES}, or set RunConfig(trace_include_sensitive_data=True)",
        conversation="pass group_id to the SDK's trace() or RunConfig",
        tokens="set ModelSettings(include_usage=True)",
    ),
    "mastra": Stack(
        name="Mastra",
        content="do not remove inputs and outputs in a span output processor or by hideInput and hideOutput",
        conversation="pass memory: { thread, resource } to the agent, or tracingOptions.metadata.sessionId",
        tokens="let the model report its usage: one of your own returns it from doGenerate and doStream",
    ),
    "mlflow": Stack(
        name="MLflow",
        content="record with mlflow.autolog() or @mlflow.trace, which keep inputs and outputs",
        conversation="OTLP leaves the trace's session out: put it on a span, by "
        'mlflow.get_current_active_span().set_attribute("mlflow.trace.session", ID)',
        agents="record the agent's span with @mlflow.trace(span_type=SpanType.AGENT)",
        tools="record the tool with @mlflow.trace(span_type=SpanType.TOOL)",
        model_calls="switch on mlflow.<flavor>.autolog() of the model client",
        tokens=_STREAMED,
    ),
    "openai-agents": Stack(
        name="the OpenAI Agents SDK by OpenTelemetry",
        content=f"set {CAPTURE_CONTENT_VARIABLE}=span_and_event, and do not set {_OPENAI_TRACES}",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        tokens="set ModelSettings(include_usage=True)",
    ),
    "openinference": Stack(
        name="OpenInference",
        content="unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the like",
        conversation="wrap the agent in using_session(session_id=…); in TypeScript: "
        "setSession(context.active(), { sessionId })",
        agents="record a span of kind AGENT around each agent's run: @tracer.agent(name=…)",
        tools="record a span of kind TOOL around each tool call: @tracer.tool(name=…)",
        model_calls="instrument the model client too, by its openinference-instrumentation-… package",
        tokens=_STREAMED,
    ),
    "openinference.instrumentation.beeai": Stack(
        name="BeeAI by OpenInference",
        agents="give the agent a name: RequirementAgent(name=…)",
        tokens="BeeAI counts no cached and no reasoning tokens: instrument what calls the model too, by "
        "openinference-instrumentation-litellm",
    ),
    "openlit": _CLIENT._replace(
        name="OpenLIT",
        content="do not set capture_message_content=False in openlit.init()",
        model_calls="do not leave the model client out by openlit.init(disabled_instrumentors=…)",
    ),
    "openinference.instrumentation.crewai": Stack(
        name="crewAI by OpenInference",
        model_calls="instrument what crewAI calls the models with too: "
        "openinference-instrumentation-litellm, or the package of the provider's client",
    ),
    "pipecat": Stack(
        name="Pipecat",
        content="set enable_tracing=True on the pipeline task",
        conversation="pass conversation_id to the pipeline task",
        agents="it names no agents: record gen_ai.agent.name on a span around the pipeline",
        tokens="set enable_usage_metrics=True in PipelineParams",
    ),
    "pydantic-ai": Stack(
        name="Pydantic AI",
        content="set InstrumentationSettings(include_content=True)",
        conversation="run each turn in spangrade.session(ID), or put gen_ai.conversation.id on the spans",
        agents="give the agent a name: Agent(name=…)",
        model_calls="instrument the agent: Agent(instrument=True) or Agent.instrument_all()",
    ),
    "spangrade": Stack(
        name="spangrade's tracer",
        content=f"unset {CAPTURE_CONTENT_VARIABLE}=NO_CONTENT",
        conversation="run each turn in spangrade.session(ID)",
        agents="run each agent in spangrade.agent(NAME)",
        tools="run each tool in spangrade.tool(NAME)",
        model_calls="run each model call in spangrade.llm_call(MODEL)",
        tokens="set LLMCall.usage, or LLMCall.response to what the client returned",
    ),
    "spring-ai": Stack(
        name="Spring AI",
        content="set spring.ai.tools.observations.include-content=true; messages are not on its spans",
        conversation="use a chat memory advisor with ChatMemory.CONVERSATION_ID",
        agents="it names no agents: record gen_ai.agent.name on a span around each agent's run",
        model_calls="add spring-boot-starter-actuator, micrometer-tracing-bridge-otel and an OTLP exporter",
    ),
    "strands": Stack(
        name="Strands",
        conversation='give the agent trace_attributes={"session.id": …}',
        agents="give the agent a name: Agent(name=…)",
    ),
    "traceloop": Stack(
        name="Traceloop",
        content="unset TRACELOOP_TRACE_CONTENT=false",
        conversation='call Traceloop.set_association_properties({"session_id": …}); in TypeScript: '
        "withAssociationProperties({ session_id }, …)",
        agents="decorate the agent with @agent(name=…); in TypeScript: withAgent({ name }, …)",
        tools="decorate the tool with @tool(name=…); in TypeScript: withTool({ name }, …)",
        model_calls="do not leave the model client out by Traceloop.init(instruments=…, block_instruments=…)",
        tokens="set should_enrich_metrics=True in Traceloop.init(), or " + _STREAMED,
    ),
    "vercel": Stack(
        name="Vercel's AI SDK",
        content="do not set recordInputs or recordOutputs to false in experimental_telemetry",
        conversation="pass the id as experimental_telemetry.metadata.sessionId; in version 7, as sessionId "
        "of the telemetry's context, which is recorded as ai.settings.context.sessionId",
        agents="pass the agent's name as experimental_telemetry.functionId",
        tools="give the tool an execute function: the SDK records ai.toolCall then",
        model_calls="set experimental_telemetry.isEnabled on each call",
    ),
    # Instrumentations of model clients, which the conventions' dialect reads.
    "@opentelemetry/instrumentation-openai": _CLIENT._replace(
        name="OpenAI by OpenTelemetry for Node",
        content=f"set captureMessageContent: true, or {CAPTURE_CONTENT_VARIABLE}=true, and import the "
        "logs too",
        conversation="put gen_ai.conversation.id on the spans, by a span processor",
        agents="record gen_ai.agent.name on a span around each agent's run",
        tools="record an execute_tool span around each tool call",
        tokens="ask for usage in streamed answers: stream_options: { include_usage: true }",
    ),
    "com.anthropic.sdk": _CLIENT._replace(name="Anthropic's client", content=None, tokens=None),
    "opentelemetry.instrumentation.anthropic": _CLIENT._replace(
        name="Anthropic by Traceloop", content="unset TRACELOOP_TRACE_CONTENT=false", tokens=None
    ),
    "opentelemetry.instrumentation.genai.anthropic": _CLIENT._replace(
        name="Anthropic by OpenTelemetry", tokens=None
    ),
    "opentelemetry.instrumentation.genai.openai": _CLIENT._replace(name="OpenAI by OpenTelemetry"),
    "opentelemetry.instrumentation.genai.openai_agents": Stack(
        name="the OpenAI Agents SDK by OpenTelemetry",
        content=_GENAI_CONTENT,
        conversation="pass group_id to the SDK's trace() or RunConfig",
        model_calls="instrument the model client too: opentelemetry-instrumentation-openai-v2",
        tokens="set ModelSettings(include_usage=True)",
    ),
    "opentelemetry.instrumentation.google_genai": _CLIENT._replace(
        name="Gemini's client by OpenTelemetry", tokens=None
    ),
    "opentelemetry.instrumentation.openai_v2": _CLIENT._replace(name="OpenAI by OpenTelemetry"),
    "semantic_kernel": _CLIENT._replace(
        name="Semantic Kernel",
        content="set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS_SENSITIVE=true",
        agents="give the agent a name: ChatCompletionAgent(name=…)",
        model_calls="set SEMANTICKERNEL_EXPERIMENTAL_GENAI_ENABLE_OTEL_DIAGNOSTICS=true",
        tokens=None,
    ),
}


def stack_of(span: Span) -> Stack:
    """Return the stack that recorded a span: by the beginning of its scope's name, and by its dialect."""
    scope = span.scope_name or ""
    dialect = next((name for name, each in dialects().items() if each.claims(span)), FALLBACK)
    scopes = [name for name in STACKS if scope.startswith(name)]
    own = STACKS.get(max(scopes, key=len, default=""), ANY)
    shared = STACKS.get(dialect, ANY)
    if own is ANY or shared is ANY:
        return shared if own is ANY else own
    missing = {lack: text for lack, text in shared._asdict().items() if getattr(own, lack) is None}
    return own._replace(**missing)


def setting(span: Span | None, lack: Lack) -> str:
    """Return how to make the stack that recorded a span record what is lacking.

    Of an unknown stack, it is what helps any that follows the conventions.
    """
    stack = ANY if span is None else stack_of(span)
    own: str | None = getattr(stack, lack)
    if stack is ANY or own is not None:
        return f"{stack.name}: {own}" if stack is not ANY else own or ""
    general = _BY_HAND if lack == "content" else getattr(ANY, lack)
    return f"{stack.name} has no setting for it: {general}"
