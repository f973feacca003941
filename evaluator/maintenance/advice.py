"""How to fix a recording: the settings that make each family of instrumentations record more.

Each is documented by its instrumentation, or stands in its source: docs/dialects.md has the links.
"""

from __future__ import annotations

from spangrade.converters.spans.registry import FALLBACK, dialects
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE
from spangrade.tracer.span import Span

_GENAI = (
    f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT and "
    "OTEL_SEMCONV_STABILITY_OPT_IN=gen_ai_latest_experimental (older instrumentations: "
    f"{CAPTURE_CONTENT_VARIABLE}=true, and import the logs too)"
)
# By dialect, or by the beginning of the scope's name where several instrumentations share a dialect.
_CONTENT = {
    "adk": f"set {CAPTURE_CONTENT_VARIABLE}=SPAN_AND_EVENT, and do not set "
    "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS=false",
    "openai-agents": f"set {CAPTURE_CONTENT_VARIABLE}=span_and_event, and do not set "
    "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA=0",
    "openinference": "unset OPENINFERENCE_HIDE_INPUTS, OPENINFERENCE_HIDE_OUTPUTS and the like",
    "pydantic-ai": "set InstrumentationSettings(include_content=True)",
    "traceloop": "unset TRACELOOP_TRACE_CONTENT=false",
    "agent_framework": "set ENABLE_SENSITIVE_DATA=true",
    "autogen": "unset AUTOGEN_DISABLE_RUNTIME_TRACING",
    "claude-code": "set OTEL_LOG_USER_PROMPTS=1, OTEL_LOG_TOOL_DETAILS=1 and OTEL_LOG_TOOL_CONTENT=1, "
    "and import the logs too",
    "haystack": "set HAYSTACK_CONTENT_TRACING_ENABLED=true",
    "langfuse": "set input and output on the observations, and do not set "
    "LANGFUSE_OBSERVE_DECORATOR_IO_CAPTURE_ENABLED=false",
    "langsmith": "unset LANGSMITH_HIDE_INPUTS and LANGSMITH_HIDE_OUTPUTS",
    "litellm": "do not set litellm.turn_off_message_logging, nor message_logging=False",
    "mastra": "do not remove inputs and outputs in a span output processor or by hideInput and hideOutput",
    "mlflow": "record with mlflow.autolog() or @mlflow.trace, which keep inputs and outputs",
    "pipecat": "set enable_tracing=True on the pipeline task",
    "vercel": "do not set recordInputs or recordOutputs to false in experimental_telemetry",
    "spangrade": f"unset {CAPTURE_CONTENT_VARIABLE}=NO_CONTENT",
}
_CONVERSATION = {
    "openinference": "wrap the agent in using_session(session_id=…)",
    "langfuse": "set the session with propagate_attributes(session_id=…), or update_trace(session_id=…)",
    "langsmith": "put thread_id or session_id into the metadata of the run's config",
    "mastra": "pass memory: { thread, resource } to the agent, or tracingOptions.metadata.sessionId",
    "pipecat": "pass conversation_id to the pipeline task",
    "vercel": "pass the id as experimental_telemetry.metadata.sessionId",
    "strands": 'give the agent trace_attributes={"session.id": …}',
}


def content(span: Span | None) -> str:
    """Return how to make the instrumentation of a span record messages, arguments and results."""
    return _by_origin(_CONTENT, span) or _GENAI


def conversation(span: Span | None) -> str:
    """Return how to get a conversation id onto the spans of an instrumentation."""
    own = _by_origin(_CONVERSATION, span)
    return (
        f"{own or 'put gen_ai.conversation.id on the spans'}, or name the attribute that holds the "
        "conversation's id: spangrade import --session-from ATTRIBUTE"
    )


def not_understood(scope: str) -> str:
    """Return what to do about spans of a scope that no dialect understood."""
    ours = "if an agent recorded them: update spangrade, or write a dialect for them (docs/dialects.md)"
    return f"{ours}; if not: spangrade import --ignore-scope {scope}" if scope else ours


def dialect_of(span: Span) -> str:
    """Return the name of the dialect that reads a span."""
    return next((name for name, dialect in dialects().items() if dialect.claims(span)), FALLBACK)


def _by_origin(advice: dict[str, str], span: Span | None) -> str | None:
    """Return the advice for the dialect of a span, or else for the beginning of its scope's name."""
    if span is None:
        return None
    scope = span.scope_name or ""
    return advice.get(dialect_of(span)) or next(
        (text for name, text in advice.items() if scope.startswith(name)), None
    )
