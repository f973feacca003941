"""The spans that frameworks record of agents in this process: switched on, or what records them.

A framework is recognized by its loaded modules, so that none is imported that the agent does not use, and an
agent that is a function is recorded too. What an application has switched on, or off, itself stays so.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from spangrade.tracer._content import content_captured

_OPENINFERENCE = "openinference.instrumentation"
_OPENAI = "OpenAI's client"  # a judge uses it, too
_JUDGE = "spangrade.evaluator.judge.models.openai_compatible"


class Framework(NamedTuple):
    """How a framework's spans are recorded; `module` is loaded where an agent uses it.

    Its own are switched on by `switch_on`; else `lines` record them, and load `package`.
    """

    name: str
    module: str
    switch_on: Callable[[Any], None] | None = None
    lines: str = ""
    package: str = ""

    @property
    def is_on(self) -> bool:
        """Whether its spans are recorded already, by its own means or by its package."""
        return self.switch_on is not None or self.package in sys.modules


def _pydantic_ai(module: Any) -> None:
    if module.Agent._instrument_default is False:
        settings = True if content_captured() else module.InstrumentationSettings(include_content=False)
        module.Agent.instrument_all(settings)


def _agent_framework(module: Any) -> None:
    if content_captured():
        module.enable_instrumentation(enable_sensitive_data=True)


def _by_openinference(name: str, module: str, package: str, instrumentor: str) -> Framework:
    imported = f"{_OPENINFERENCE}.{package}"
    lines = f"from {imported} import {instrumentor}; {instrumentor}().instrument()"
    of_pip = imported.replace(".", "-").replace("_", "-")
    return Framework(name, module, lines=f"pip install {of_pip}, then {lines}", package=imported)


# Frameworks before the clients of models that they use: of several without spans, the first is named.
FRAMEWORKS = (
    Framework("Pydantic AI", "pydantic_ai", _pydantic_ai),
    Framework("Microsoft Agent Framework", "agent_framework.observability", _agent_framework),
    _by_openinference("OpenAI Agents SDK", "agents.tracing", "openai_agents", "OpenAIAgentsInstrumentor"),
    _by_openinference("CrewAI", "crewai.agent", "crewai", "CrewAIInstrumentor"),
    _by_openinference("LlamaIndex", "llama_index.core", "llama_index", "LlamaIndexInstrumentor"),
    _by_openinference("Agno", "agno.agent", "agno", "AgnoInstrumentor"),
    _by_openinference("smolagents", "smolagents.agents", "smolagents", "SmolagentsInstrumentor"),
    _by_openinference("DSPy", "dspy.primitives", "dspy", "DSPyInstrumentor"),
    Framework(
        "Haystack",
        "haystack.core.pipeline",
        lines="pip install opentelemetry-haystack, then its OpenTelemetryConnector in the pipeline, and "
        "HAYSTACK_CONTENT_TRACING_ENABLED=true in the environment",
        package="haystack_integrations.components.connectors.opentelemetry",
    ),
    _by_openinference("LangChain", "langchain_core.runnables", "langchain", "LangChainInstrumentor"),
    Framework("LiteLLM", "litellm.main", lines='litellm.callbacks = ["otel"]'),
    _by_openinference("Anthropic's client", "anthropic.resources", "anthropic", "AnthropicInstrumentor"),
    _by_openinference(_OPENAI, "openai.resources.chat", "openai", "OpenAIInstrumentor"),
)


def record_own_spans() -> None:
    """Switch on the spans of the loaded frameworks that need no package for them."""
    for framework in _loaded():
        if framework.switch_on is not None:
            framework.switch_on(sys.modules[framework.module])


def not_recorded() -> Framework | None:
    """Return a loaded framework whose spans a package would record, None without one or if it is in use."""
    loaded = [each for each in _loaded() if not (each.name == _OPENAI and _JUDGE in sys.modules)]
    return None if any(each.is_on for each in loaded) else next(iter(loaded), None)


def _loaded() -> Iterator[Framework]:
    return (each for each in FRAMEWORKS if each.module in sys.modules)
