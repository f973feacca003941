"""The frameworks whose spans are read: what records them, and what is switched on here.

A framework is recognized by its loaded modules, and by whether it is installed; none is imported. What needs
no package is switched on by `switch_on`, before the framework reads it. What a user has set stays so.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING, Any, NamedTuple

from spangrade.tracer import _content
from spangrade.tracer._content import content_captured
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE

if TYPE_CHECKING:
    from opentelemetry.trace import TracerProvider

_log = logging.getLogger("spangrade")
_TRUE = frozenset({"true", "1", "yes", "on"})
_FALSE = frozenset({"false", "0", "no", "off"})
_OPENAI = "OpenAI's client"  # a judge uses it, too
_JUDGE = "spangrade.evaluator.judge.models.openai_compatible"


class ContentVariable(NamedTuple):
    """A variable of the environment on which it depends whether contents are on spans.

    `value` is set where the user has set none. Of the user's values, only those in `records` record contents
    or, without these, those in `hides` do not.
    """

    name: str
    value: str = ""
    records: frozenset[str] = frozenset()
    hides: frozenset[str] = frozenset()

    @property
    def users(self) -> str:
        """What the user has set, empty if nothing."""
        return "" if self.name in _set_here else os.environ.get(self.name, "").strip()

    @property
    def hides_contents(self) -> bool:
        """Whether the user's value leaves contents out."""
        value = self.users.lower()
        return bool(value) and (value not in self.records if self.records else value in self.hides)


class Framework(NamedTuple):
    """How a framework's spans are recorded, with their contents; `module` is loaded where an agent uses it.

    `lines` record them, and load `package`; without lines the framework does so by itself. It reads
    `variables`, if `reader` is installed; `switch` sets the same, and more, in the loaded `module`.
    """

    name: str
    module: str
    lines: str = ""
    package: str = ""
    variables: tuple[ContentVariable, ...] = ()
    reader: str = ""
    switch: Callable[[Any, bool], str] | None = None
    on_pypi: str = ""

    @property
    def advice(self) -> str:
        """The lines that record its spans, with the package to install."""
        return f"pip install {self.on_pypi}, then {self.lines}" if self.on_pypi else self.lines

    @property
    def is_on(self) -> bool:
        """Whether its spans are recorded already: by itself, by a switch, or by its package."""
        return not self.lines or self.switch is not None or self.package in sys.modules

    @property
    def hidden(self) -> list[ContentVariable]:
        """The variables by which the user leaves its contents out."""
        return [one for one in self.variables if one.hides_contents]

    @property
    def settings(self) -> str:
        """The variables that record its contents, with their values."""
        return " and ".join(f"{one.name}={one.value}" for one in self.variables if one.value)


def _pydantic_ai(module: Any, content: bool) -> str:
    """Record the spans of all agents, with their contents if so, unless the application has said how."""
    agents = getattr(module, "Agent", None)  # none while the package is being imported
    if getattr(agents, "_instrument_default", None) not in (False, _set_here.get("pydantic_ai", False)):
        return ""
    settings = True if content else module.InstrumentationSettings(include_content=False)
    _set_here["pydantic_ai"] = settings
    module.Agent.instrument_all(settings)
    return "Agent.instrument_all()"


def _agent_framework(module: Any, content: bool) -> str:
    if content and hasattr(module, "enable_instrumentation"):
        module.enable_instrumentation(enable_sensitive_data=True)
    return ""  # its variable says so


def _haystack(module: Any, content: bool) -> str:
    if content and hasattr(module, "tracer"):
        module.tracer.is_content_tracing_enabled = True
    return ""


CAPTURE = ContentVariable(
    CAPTURE_CONTENT_VARIABLE, "SPAN_AND_EVENT", frozenset({"span_only", "span_and_event"})
)
_OPT_IN = ContentVariable(
    "OTEL_SEMCONV_STABILITY_OPT_IN", "gen_ai_latest_experimental", hides=frozenset({"gen_ai_stable"})
)


def _by_openinference(
    name: str, module: str, package: str, instrumentor: str, *own: ContentVariable
) -> Framework:
    imported = f"openinference.instrumentation.{package}"
    lines = f"from {imported} import {instrumentor}; {instrumentor}().instrument()"
    on_pypi = imported.replace(".", "-").replace("_", "-")
    return Framework(name, module, lines, imported, own, on_pypi=on_pypi)


# Frameworks before the clients of models that they use: of several without spans, the first is named.
ADK = Framework(
    "Google ADK",
    "google.adk.runners",
    variables=(CAPTURE, ContentVariable("ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS", hides=_FALSE)),
    reader="google.adk",
)
PYDANTIC_AI = Framework("Pydantic AI", "pydantic_ai", "Agent.instrument_all()", switch=_pydantic_ai)
AGENT_FRAMEWORK = Framework(
    "Microsoft Agent Framework",
    "agent_framework.observability",
    variables=(
        ContentVariable("ENABLE_SENSITIVE_DATA", "true", _TRUE),
        ContentVariable("ENABLE_INSTRUMENTATION", hides=_FALSE),
    ),
    reader="agent_framework",
    switch=_agent_framework,
)
HAYSTACK = Framework(
    "Haystack",
    "haystack.tracing.tracer",
    "from haystack_integrations.components.connectors.opentelemetry import OpenTelemetryConnector; "
    'pipeline.add_component("tracer", OpenTelemetryConnector("shop"))',
    "haystack_integrations.components.connectors.opentelemetry",
    (ContentVariable("HAYSTACK_CONTENT_TRACING_ENABLED", "true", frozenset({"true"})),),
    "haystack",
    _haystack,
    "opentelemetry-haystack",
)
FRAMEWORKS = (
    ADK,
    PYDANTIC_AI,
    AGENT_FRAMEWORK,
    _by_openinference(
        "OpenAI Agents SDK",
        "agents.tracing",
        "openai_agents",
        "OpenAIAgentsInstrumentor",
        ContentVariable("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", hides=_FALSE),
        ContentVariable("OPENAI_AGENTS_DISABLE_TRACING", hides=_TRUE),
    ),
    _by_openinference("CrewAI", "crewai.agent", "crewai", "CrewAIInstrumentor"),
    _by_openinference("LlamaIndex", "llama_index.core", "llama_index", "LlamaIndexInstrumentor"),
    _by_openinference("Agno", "agno.agent", "agno", "AgnoInstrumentor"),
    _by_openinference("smolagents", "smolagents.agents", "smolagents", "SmolagentsInstrumentor"),
    _by_openinference("DSPy", "dspy.primitives", "dspy", "DSPyInstrumentor"),
    HAYSTACK,
    Framework("Strands", "strands.agent"),
    Framework(
        "AutoGen",
        "autogen_core",
        variables=(ContentVariable("AUTOGEN_DISABLE_RUNTIME_TRACING", hides=frozenset({"true"})),),
    ),
    _by_openinference(
        "LangChain, LangGraph", "langchain_core.runnables", "langchain", "LangChainInstrumentor"
    ),
    Framework("LiteLLM", "litellm.main", 'litellm.callbacks = ["otel"]'),
    _by_openinference("Anthropic's client", "anthropic.resources", "anthropic", "AnthropicInstrumentor"),
    _by_openinference(_OPENAI, "openai.resources.chat", "openai", "OpenAIInstrumentor"),
)
# OpenTelemetry's own packages for clients and frameworks; the application calls their instrumentors.
GENAI = Framework(
    "OpenTelemetry's GenAI packages",
    "opentelemetry.util.genai",
    variables=(CAPTURE, _OPT_IN),
    reader="opentelemetry.util.genai",
)
TRACELOOP = Framework(
    "Traceloop",
    "traceloop.sdk",
    variables=(ContentVariable("TRACELOOP_TRACE_CONTENT", hides=_FALSE),),
)
OPENINFERENCE = Framework(
    "OpenInference",
    "openinference.instrumentation",
    variables=tuple(
        ContentVariable(f"OPENINFERENCE_HIDE_{what}", hides=_TRUE)
        for what in ("INPUTS", "OUTPUTS", "INPUT_MESSAGES", "OUTPUT_MESSAGES", "INPUT_TEXT", "OUTPUT_TEXT")
    ),
)
_READERS = (*FRAMEWORKS, GENAI, TRACELOOP, OPENINFERENCE)

_set_here: dict[str, Any] = {}  # what was set here: variables, and what Pydantic AI was given
_done: dict[str, bool] = {}  # frameworks whose switches are set, and whether to record contents
_said: set[str] = set()


def switch_on(provider: TracerProvider | None = None) -> None:
    """Switch on what needs no package for the spans and the contents of the frameworks in this process.

    With a `provider`, which production uses, that is done only where no one else receives the contents; else
    the log advises it. Nothing is switched on that the user, or `capture_content`, has switched off.
    """
    content, is_refused = content_captured(), _content.is_off_by_argument()
    if is_refused:
        _unset()
    here = [one for one in _READERS if _done.get(one.name) is not content and _is_here(one)]
    hidden = {one.name: variables for one in here if (variables := one.hidden)}
    # Several read one variable: it is not set if one of them is not to record contents.
    refused = {variable.name for one in here if one.name in hidden for variable in one.variables}
    others = _other_receivers(provider)
    done: list[str] = []
    for framework in here:
        for variable in () if is_refused else hidden.get(framework.name, ()):
            _warn(
                f"{variable.name}={variable.users} is set, and stays so: of {framework.name} no texts, no "
                "results and no arguments will be recorded: tool references will be inconclusive"
            )
        if others and _lacks(framework, content and framework.name not in hidden):
            _warn(
                f"to record the texts, arguments and results of {framework.name}, set "
                f"{framework.settings or framework.lines}: it is not set here, as {others} would receive "
                "them, too"
            )
        else:
            done += _switch(framework, refused, content=content and framework.name not in hidden)
    if done:
        _log.info("switched on: %s", "; ".join(done))


def _switch(framework: Framework, refused: set[str], *, content: bool) -> Iterator[str]:
    """Set what a framework reads; yield what was set."""
    wanted = [one for one in framework.variables if one.value and not one.users] if content else []
    new = [one for one in wanted if one.name not in _set_here and one.name not in refused]
    for one in new:
        os.environ[one.name] = _set_here[one.name] = one.value
    module = sys.modules.get(framework.module)
    called = framework.switch(module, content) if framework.switch is not None and module else ""
    if module or framework.switch is None:  # else its switch waits for the module
        _done[framework.name] = content
    if what := [f"{one.name}={one.value}" for one in new] + [called] * bool(called):
        yield f"{', '.join(what)} ({framework.name})"


def _lacks(framework: Framework, content: bool) -> bool:
    """Return whether something of a framework is not switched on."""
    if any(one.value and not one.users and one.name not in _set_here for one in framework.variables):
        return content
    agents = getattr(sys.modules.get(framework.module), "Agent", None)
    return framework is PYDANTIC_AI and getattr(agents, "_instrument_default", None) is False


def _unset() -> None:
    """Unset what was set here, since contents are not to be recorded."""
    for name in [name for name in _set_here if name.isupper()]:
        if os.environ.get(name) == _set_here.pop(name):
            del os.environ[name]
    for framework, module, setting in (
        (HAYSTACK, HAYSTACK.module, "is_content_tracing_enabled"),
        (AGENT_FRAMEWORK, AGENT_FRAMEWORK.module, "enable_sensitive_data"),
    ):
        loaded = sys.modules.get(module)
        if loaded is not None and framework.name in _done:
            setattr(getattr(loaded, "tracer", None) or loaded.OBSERVABILITY_SETTINGS, setting, False)
    _done.clear()


def _warn(text: str) -> None:
    if text not in _said:
        _said.add(text)
        _log.warning("%s", text)


def _other_receivers(provider: TracerProvider | None) -> str:
    """Return who else receives what is recorded on the spans of a provider, or in logs; empty if no one."""
    if provider is None:
        return ""
    of_sdk = getattr(provider, "provider", provider)  # which Logfire's own wraps
    # The SDK has no public API for its processors.
    for processor in getattr(getattr(of_sdk, "_active_span_processor", None), "_span_processors", ()):
        receiver = getattr(processor, "span_exporter", None) or processor
        # One of `configure`, to its database or endpoint, or of the application to a database of ours.
        if not any(type(one).__module__.startswith("spangrade.") for one in (processor, receiver)):
            return f"the application's {type(receiver).__name__}"
    logs = sys.modules.get("opentelemetry._logs")
    logger = logs and logs.get_logger_provider()
    if logger is not None and type(logger).__name__ not in {"ProxyLoggerProvider", "NoOpLoggerProvider"}:
        return f"the application's {type(logger).__name__}"
    return ""


def not_recorded() -> Framework | None:
    """Return a loaded framework whose spans a package would record, None without one or if it is in use."""
    loaded = [
        each
        for each in FRAMEWORKS
        if each.module in sys.modules and not (each.name == _OPENAI and _JUDGE in sys.modules)
    ]
    return None if any(each.is_on for each in loaded) else next(iter(loaded), None)


def _is_here(framework: Framework) -> bool:
    """Return whether a framework may be used here: loaded, installed, or named by a variable of the user."""
    if framework.module in sys.modules or any(one.hides for one in framework.hidden):
        return True
    return bool(framework.reader) and (framework.reader in sys.modules or _is_installed(framework.reader))


@cache
def _is_installed(module: str) -> bool:
    """Return whether a package can be imported; of a dotted name this imports the namespaces above it."""
    import importlib.util  # it takes 0.6 ms

    try:
        return importlib.util.find_spec(module) is not None
    except (ImportError, ValueError, AttributeError):
        return False
