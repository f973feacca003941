"""What a span of a run tells of its agent: the name that it may have, and what is only a framework's part.

Whether a run is an agent's depends on the spans around it: `evaluator/derive/agent_runs.py` decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spangrade.converters.spans.reading import Reading
from spangrade.converters.spans.values import json_object, parse_json, text
from spangrade.tracer import semconv
from spangrade.tracer.span import Span

# LangChain's name of the agent that a span belongs to, as each instrumentation writes it.
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


def with_agent(reading: Reading, span: Span) -> Reading:
    """Return a reading with what its span tells of the agent, besides what the dialect read."""
    attributes = span.attributes
    declared = _declared(attributes)
    if reading.kind in {"llm", "tool"}:
        return reading._replace(agent=declared) if declared and declared != reading.agent else reading
    if reading.kind not in {"agent", "workflow"}:
        return reading
    if reading.kind == "agent" and _MIDDLEWARE.search(reading.name or ""):
        return reading._replace(kind="workflow", name=None, agent=None)
    if reading.name is None and _says_agent(reading, attributes):
        return reading._replace(candidate=name_in(span.name))
    if reading.kind == "agent" and _is_plumbing(reading, attributes):
        return reading._replace(is_node=True)
    if reading.kind == "agent" and (span.scope_name or "").startswith(_OF_NODES):
        explicit = declared == reading.name or any(name in attributes for name in _EXPLICIT)
        return reading if explicit else reading._replace(is_node=True)
    return reading


def name_in(span_name: str) -> str | None:
    """Return the agent's name in the name of its span: `shop` of `shop.run`; None if it has none."""
    name = _AFFIX.sub("", span_name)
    if not name or len(name) > _LONGEST or _MIDDLEWARE.search(name) or _RANDOM.fullmatch(name):
        return None
    if set(name) & set(".(/:{[<") or _NOT_AGENTS.fullmatch(name) or _CLASSES.fullmatch(name):
        return None
    return name


def _is_plumbing(reading: Reading, attributes: Mapping[str, Any]) -> bool:
    """Return whether a run has the name of a workflow, and no operation of agents."""
    if attributes.get(semconv.OPERATION_NAME) == semconv.INVOKE_AGENT:
        return False
    return _WORKFLOWS.fullmatch(reading.name or "") is not None


def _says_agent(reading: Reading, attributes: Mapping[str, Any]) -> bool:
    return reading.kind == "agent" or attributes.get("openinference.span.kind") == "AGENT"


def _declared(attributes: Mapping[str, Any]) -> str | None:
    for name in _DECLARING:
        if name in attributes:
            return text(parse_json(attributes[name]))
    metadata = attributes.get("metadata")
    if metadata is None or (isinstance(metadata, str) and _DECLARED not in metadata):
        return None
    return text(json_object(metadata).get(_DECLARED))
