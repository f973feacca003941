"""Which spans look like an agent's, and the names of agents and tools in those of their spans.

One that looks like an agent's and that no dialect understands must not go unnoticed. The names of a
framework's own parts are not agents. Whether a run is an agent's depends on the spans around it:
`evaluator/derive/passes.py` decides.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any

from spangrade.converters.spans.observation import ModelCall, Observation, RunSpan, ToolUse, Trait
from spangrade.converters.spans.values import first_text, is_removed, json_object, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# LangChain's name of the agent that a span belongs to, as each instrumentation writes it.
_METADATA = "metadata"
_DECLARED = "lc_agent_name"
_DECLARING = tuple(
    f"{prefix}.{_DECLARED}"
    for prefix in ("traceloop.association.properties", "langsmith.metadata", "langfuse.observation.metadata")
)
# The beginnings of the scopes of those that take each node of LangChain's graphs for an agent.
_OF_NODES = (
    "openinference.instrumentation.langchain",
    "@arizeai/openinference-instrumentation-langchain",
    "openlit.instrumentation.lang",
    "opentelemetry.instrumentation.langchain",
    "@traceloop/instrumentation-langchain",
)
_EXPLICIT = ("agent.name", "gen_ai.agent.id")
_AFFIX = re.compile(
    r"^(?:invoke_agent|run_agent|execute_agent|agent[_ ]run|agent|run)[ .:/]+|"
    r"\.(?:a?run(?:_stream|_sync)?|a?invoke|a?stream|a?call|kickoff|execute|process)$|[ .:/_-]run$",
)
# What frameworks and exporters put around the name of a tool or an agent in the name of its span.
_OPERATION = re.compile(
    r"^(?:tool_call|execute_tool|running tool|invoke_agent|tools/call|[Tt]ool|agent|function|run)[ .:/]+|"
    r"(?:[ .:/](?:tool|agent|function)|\.(?:__call__|a?forward|_?a?run|a?invoke|acall))$"
)
# The whole name of a span that runs any tool.
_ANY_TOOL = re.compile(r"(?:call|execute|executing|invoke|running)[_ ]tool", re.IGNORECASE)
# An attribute with the name of the tool that a span calls, but not one of code, or inside other contents.
_TOOL_NAME = re.compile(
    r"(?!(?:code|inputs?|outputs?|metadata|parent|previous|next|last)[._])(?:\w+\.)?(?:\w+_)?(?:tool|function)(?:[._]?call)?[._]?name|traceloop\.entity\.name",
    re.IGNORECASE,
)
# Words for a tool's span of any tool, products, and classes of frameworks: none is the name of a tool.
_NOT_TOOLS = re.compile(
    r"mcp|un(?:known|named)|"
    r"(?:(?:call|execute|invoke|run|use)_?)?(?:tool|function)s?(?:_?(?:calls?|execution|invocation|node|run|use))?|"
    r"(?:ag2|agno|anthropic|autogen|claude_code|codex|crewai|gemini_cli|haystack|langchain|langgraph|openai|"
    r"strands)",
    re.IGNORECASE,
)
_METHOD = re.compile(
    r"__\w+__|a?(?:call|forward|invoke)|_?a?run|execut(?:e|ion)|invocation|use", re.IGNORECASE
)
_TOOL_CLASS = re.compile(r"[A-Z]\w*(?:Chain|Executor|Function|Tool|Toolkit|Tools)|Runnable\w*")
_HANDOFF = re.compile(r"hand[ _-]?offs?(?:[ :].*)?|transfer(?:ring)? to .*", re.IGNORECASE)
_NAME_OF_TOOL = re.compile(r"\w[\w:./ -]*")
_MIDDLEWARE = re.compile(r"(?:^|[._])(?:before|after)_(?:agent|model)$|(?:^|\.)wrap_\w+$|Middleware\b")
# Names of workflows, of hand-offs and of what runs an agent, and frameworks' own classes.
_NOT_AGENTS = re.compile(
    r"(?:agent[ _-]?)?(?:workflow|crew|pipeline|chain|graph|turn|session|conversation|trace|response|query|"
    r"task|step|loop|runner|run|request|handler|invocation|executor|interaction|main|root|span|teams?|swarm)s?|"
    r"(?:transfer(?:_back)?|hand_?off)(?:[_ ].*)?|"
    r"(?:invoke|run|execute|create)_agent|(?:agents?|assistant|ai|llm|chat|generate|unknown|unnamed|default)",
    re.IGNORECASE,
)
_CLASSES = re.compile(
    r"(?:Agent|AssistantAgent|AgentExecutor|AgentWorkflow|BaseAgent|ChatAgent|CodeAgent|FunctionAgent|LangGraph|"
    r"MultiStepAgent|OpenAIAgent|ReActAgent|RequirementAgent|Runnable\w*|ToolCallingAgent|\w*AgentSDK|\w*Workflow|"
    r"\w*(?:Chain|Crew|Executor|Graph|Parser|Runner|Sequence))"
)
# What holds agents together; a span may give it as the name of one.
_WORKFLOWS = re.compile(
    r"(?:agent[ _-]?)?(?:workflow|crew|pipeline|chain|graph)|Runnable\w*|"
    r"\w*(?:Chain|Crew|Executor|Graph|Parser|Runner|Sequence|Workflow)",
    re.IGNORECASE,
)
_RANDOM = re.compile(r"[0-9a-f-]{16,}|.*\d{6,}.*")
_LONGEST = 80  # characters
# The scopes of libraries that record nothing but agents and models, of which no dialect reads all spans.
_SCOPES = frozenset(
    {
        "autogen-core",
        "com.anthropic.claude_code.tracing",
        "crewAI",
        "crewai.telemetry",
        "genkit",
        "genkit-tracer",
        "haystack",
        "langsmith",
        "smolagents",
    }
)
_SCOPE_PREFIXES = (
    "@mastra/",
    "@traceloop/",
    "langfuse",
    "openinference.",
    "opentelemetry.instrumentation.genai.",
)
_PREFIXES = (
    "ag2.",
    "agno.",
    "ai.",
    "claude_code.",
    "crew_",
    "gcp.vertex.agent.",
    "gen_ai.",
    "genkit:",
    "haystack.agent.",
    "haystack.tool.",
    "langchain.",
    "langfuse.",
    "langgraph.",
    "langsmith.",
    "lk.",
    "llm.",
    "mastra.",
    "mlflow.",
    "openinference.",
    "spring.ai.",
    "traceloop.",
)
# What an attribute's name has in it if it holds what an agent, a model or a tool got or gave.
_CONTENT = re.compile(r"arg|completion|input|message|model|output|prompt|response|result|token|usage")
# Names under which a conversation's context is put on every span of it, also on those of a web server.
_CONTEXT = (
    "ai.settings.context.",
    "ai.telemetry.",
    "langfuse.trace.",
    "langsmith.metadata.",
    "langsmith.trace.",
    "mlflow.trace",
    "traceloop.association.",
)
# Operations of the conventions that are not steps of a session.
OTHER_OPERATIONS = frozenset(
    {
        "create_agent",
        "create_memory",
        "create_memory_store",
        "delete_memory",
        "delete_memory_store",
        "embeddings",
        "evaluate",
        "image_generation",
        "moderation",
        "rerank",
        "retrieval",
        "search_memory",
        "speech_to_text",
        "text_to_speech",
        "update_memory",
        "upsert_memory",
    }
)


def with_agent(observation: Observation, span: Span, declaring: str | None) -> Observation:
    """Return an observation with the agent's attributes that its dialect did not read.

    `declaring` is the attribute that may name its agent: see `declaring_in`.
    """
    attributes = span.attributes
    declared = _declared(attributes, declaring) if declaring else None
    if isinstance(observation, ModelCall | ToolUse):
        return observation._replace(agent=declared) if declared else observation
    if not isinstance(observation, RunSpan):
        return observation
    if declared:
        observation = observation._replace(declares_agent=declared)
    if observation.is_agent and _MIDDLEWARE.search(observation.name or ""):
        return observation._replace(is_agent=False, name=None, agent=None)
    says_agent = observation.is_agent or attributes.get("openinference.span.kind") == "AGENT"
    if observation.name is None and says_agent:
        return observation._replace(candidate=name_in(span.name))
    if not observation.is_agent:
        return observation
    trait: Trait | None = "is_workflow" if _is_plumbing(observation, attributes) else None
    if (span.scope_name or "").startswith(_OF_NODES):
        explicit = declared == observation.name or any(name in attributes for name in _EXPLICIT)
        trait = trait if explicit else "is_node"
    return observation if trait is None else observation._replace(traits=observation.traits | {trait})


def name_in(span_name: str) -> str | None:
    """Return the agent's name in the name of its span: `shop` of `shop.run`; None if it has none."""
    name = _AFFIX.sub("", span_name)
    if not name or len(name) > _LONGEST or _MIDDLEWARE.search(name) or _RANDOM.fullmatch(name):
        return None
    if set(name) & set(".(/:{[<") or _NOT_AGENTS.fullmatch(name) or _CLASSES.fullmatch(name):
        return None
    return name


def without_operation(span_name: str) -> str | None:
    """Return the name of a tool or an agent, given that of its span: `cancel` of `execute_tool cancel`.

    None if it only says that one is run.
    """
    name = _OPERATION.sub("", span_name)
    if _ANY_TOOL.fullmatch(span_name) or (name != span_name and _METHOD.fullmatch(name)):
        return None
    return text(name) or text(span_name)


@lru_cache(maxsize=1024)
def _naming_tools(names: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(sorted(filter(_TOOL_NAME.fullmatch, names), key=len))


def tool_in_attributes(attributes: Mapping[str, Any]) -> str | None:
    """Return the name of the tool that a span calls, from an attribute of any vendor; None without one."""
    return first_text(map(attributes.get, _naming_tools(tuple(attributes))))


def tool_in_name(span: Span) -> str | None:
    """Return the name of the tool that a span calls, from the span's own name.

    None if that is one of a hand-off, a word for every tool's span, a class, or the instrumentation's own.
    """
    name = without_operation(span.name) or ""
    if len(name) > _LONGEST or not _NAME_OF_TOOL.fullmatch(name) or _HANDOFF.fullmatch(name):
        return None
    *words, last = re.split(r"[ .:/]+", name)
    if _TOOL_CLASS.fullmatch(last) or name in (span.scope_name or "").split("."):
        return None
    if any(_NOT_TOOLS.fullmatch(word) or is_removed(word) for word in (*words, last)):
        return None
    return name


def _is_plumbing(run: RunSpan, attributes: Mapping[str, Any]) -> bool:
    """Return whether a run has the name of a workflow, and no operation of agents."""
    if attributes.get(semconv.OPERATION_NAME) == semconv.INVOKE_AGENT:
        return False
    return _WORKFLOWS.fullmatch(run.name or "") is not None


def declaring_in(names: Collection[str]) -> str | None:
    """Return the attribute, of these, that may name the agent that a span belongs to; None without one."""
    return next((name for name in (*_DECLARING, _METADATA) if name in names), None)


def _declared(attributes: Mapping[str, Any], declaring: str) -> str | None:
    value = attributes[declaring]
    if declaring != _METADATA:
        return text(parse_json(value))
    if value is None or (isinstance(value, str) and _DECLARED not in value):
        return None
    return text(json_object(value).get(_DECLARED))


def is_other_operation(attributes: Mapping[str, Any]) -> bool:
    """Return whether attributes name an operation that is not a step of a session, or a tool's protocol."""
    return text(attributes.get(semconv.OPERATION_NAME)) in OTHER_OPERATIONS or "mcp.method.name" in attributes


def looks_like_an_agents(span: Span) -> bool:
    """Return whether a span has content, and the scope or an attribute of an agent's instrumentation.

    False for one whose operation is known not to be a step of a session, and for the protocols of tools.
    """
    attributes = span.attributes
    if is_other_operation(attributes):
        return False
    scope = span.scope_name
    if scope is not None and (scope in _SCOPES or scope.startswith(_SCOPE_PREFIXES)):
        return any(map(_CONTENT.search, attributes))
    return any(
        key.startswith(_PREFIXES) and not key.startswith(_CONTEXT) and _CONTENT.search(key) is not None
        for key in attributes
    )
