"""What is switched on for the frameworks of a process: by whom, when, and what the log says."""

import logging
import os
import subprocess
import sys

import pytest
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from spangrade import DuckDBSpanExporter
from spangrade.tracer import _content, frameworks
from spangrade.tracer._at_exit import FlushingSpanProcessor
from spangrade.tracer.exporter import SessionSpanProcessor
from spangrade.tracer.frameworks import FRAMEWORKS, switch_on
from spangrade.tracer.semconv import CAPTURE_CONTENT_VARIABLE as CAPTURE

SENSITIVE, HAYSTACK = "ENABLE_SENSITIVE_DATA", "HAYSTACK_CONTENT_TRACING_ENABLED"
# What stands for each framework that needs no package: its files, and what it is given.
PACKAGES = {
    "google/adk/__init__.py": "",
    "google/adk/runners.py": "",
    "agent_framework/__init__.py": "",
    "agent_framework/observability.py": (
        "given = []\ndef enable_instrumentation(**options): given.append(options)\n"
        "class OBSERVABILITY_SETTINGS: enable_sensitive_data = True\n"
    ),
    "haystack/__init__.py": "",
    "haystack/tracing/__init__.py": "",
    "haystack/tracing/tracer.py": "class tracer: is_content_tracing_enabled = False\n",
    "pydantic_ai.py": (
        "class InstrumentationSettings:\n"
        "    def __init__(self, include_content): self.content = include_content\n"
        "class Agent:\n    _instrument_default = False\n    @classmethod\n"
        "    def instrument_all(cls, settings): cls._instrument_default = settings\n"
    ),
}
ALL_SET = {CAPTURE: "SPAN_AND_EVENT", SENSITIVE: "true", HAYSTACK: "true"}
VARIABLES = {one.name for framework in (*FRAMEWORKS, frameworks.GENAI) for one in framework.variables}


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Install what stands for the frameworks, in a process in which nothing is set."""
    for name, text in PACKAGES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    for name in VARIABLES:
        monkeypatch.setenv(name, "")  # so that it is taken back
        monkeypatch.delenv(name)
    monkeypatch.setattr(_content, "_override", None)
    for name in ("_set_here", "_done", "_said"):
        monkeypatch.setattr(frameworks, name, type(getattr(frameworks, name))())
    tops = {framework.module.split(".")[0] for framework in FRAMEWORKS} - {"google"}
    before = [name for name in sys.modules if name.split(".")[0] in tops or name.startswith("google.adk")]
    for name in before:
        monkeypatch.delitem(sys.modules, name)
    cache = frameworks._is_installed
    cache.cache_clear()
    yield tmp_path
    for name in list(sys.modules):
        if (getattr(sys.modules[name], "__file__", None) or "").startswith(str(tmp_path)):
            del sys.modules[name]
    cache.cache_clear()


def env():
    return {name: os.environ[name] for name in VARIABLES if name in os.environ}


def load(name):
    __import__(name)
    return sys.modules[name]


def application(*processors):
    provider = TracerProvider()
    for processor in processors:
        provider.add_span_processor(processor)
    return provider


@pytest.mark.parametrize("provider", [None, application()], ids=["run", "production"])
def test_what_needs_no_package_is_switched_on_before_the_framework_is_imported(installed, provider, caplog):
    caplog.set_level(logging.INFO)
    switch_on(provider)
    switch_on(provider)
    assert env() == ALL_SET
    assert not any(name.startswith(("google.adk", "agent_framework", "haystack")) for name in sys.modules)
    [line] = [record.message for record in caplog.records]
    assert line == (
        f"switched on: {CAPTURE}=SPAN_AND_EVENT (Google ADK); {SENSITIVE}=true (Microsoft Agent Framework); "
        f"{HAYSTACK}=true (Haystack)"
    )


def test_a_loaded_framework_is_given_what_it_would_have_read(installed):
    observability, tracing, pydantic_ai = map(
        load, ("agent_framework.observability", "haystack.tracing.tracer", "pydantic_ai")
    )
    switch_on()
    assert observability.given == [{"enable_sensitive_data": True}]
    assert tracing.tracer.is_content_tracing_enabled
    assert pydantic_ai.Agent._instrument_default is True


def test_a_framework_that_is_loaded_later_is_switched_on_by_the_next_door(installed):
    switch_on()
    pydantic_ai = load("pydantic_ai")
    switch_on()
    assert pydantic_ai.Agent._instrument_default is True


def test_nothing_is_set_where_no_framework_is_installed(installed, monkeypatch, caplog):
    caplog.set_level(logging.INFO)
    monkeypatch.setattr(frameworks, "_is_installed", lambda module: False)
    switch_on()
    assert (env(), caplog.messages) == ({}, [])


@pytest.mark.parametrize("of_the_application", [BatchSpanProcessor, SimpleSpanProcessor])
def test_where_others_receive_the_spans_production_is_advised_and_a_run_is_not(
    installed, of_the_application, caplog
):
    pydantic_ai = load("pydantic_ai")
    provider = application(of_the_application(InMemorySpanExporter()))
    switch_on(provider)
    switch_on(provider)
    assert (env(), pydantic_ai.Agent._instrument_default) == ({}, False)
    assert [message.partition(": it is not set here")[0] for message in caplog.messages] == [
        f"to record the texts, arguments and results of {name}, set {line}"
        for name, line in (
            ("Google ADK", f"{CAPTURE}=SPAN_AND_EVENT"),
            ("Pydantic AI", "Agent.instrument_all()"),
            ("Microsoft Agent Framework", f"{SENSITIVE}=true"),
            ("Haystack", f"{HAYSTACK}=true"),
        )
    ]
    switch_on()
    assert (env(), pydantic_ai.Agent._instrument_default) == (ALL_SET, True)


@pytest.mark.parametrize(
    "ours",
    [
        lambda folder: BatchSpanProcessor(DuckDBSpanExporter(folder / "db.duckdb")),
        lambda folder: FlushingSpanProcessor(OTLPSpanExporter("http://127.0.0.1:9/v1/traces")),
        lambda folder: SessionSpanProcessor(),
    ],
    ids=["the application's, to our database", "an endpoint of configure", "without an exporter"],
)
def test_what_goes_where_configure_sends_it_is_not_another_receiver(installed, ours, tmp_path):
    switch_on(application(ours(tmp_path)))
    assert env() == ALL_SET


def test_log_records_are_received_by_others_too(installed, monkeypatch, caplog):
    monkeypatch.setattr("opentelemetry._logs.get_logger_provider", LoggerProvider)
    switch_on(application())
    assert env() == {}
    assert all("as the application's LoggerProvider would receive them" in one for one in caplog.messages)


# A user's setting, the framework whose contents it leaves out, and what is set beside it.
ADK_SPANS = "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS"
OTHERS_SET = {SENSITIVE: "true", HAYSTACK: "true"}
COSTS = [
    (CAPTURE, "true", "Google ADK", OTHERS_SET),
    (CAPTURE, "NO_CONTENT", "Google ADK", {}),
    (CAPTURE, "event_only", "Google ADK", {}),
    (ADK_SPANS, "false", "Google ADK", OTHERS_SET),
    (SENSITIVE, "false", "Microsoft Agent Framework", {CAPTURE: "SPAN_AND_EVENT", HAYSTACK: "true"}),
    (HAYSTACK, "false", "Haystack", {CAPTURE: "SPAN_AND_EVENT", SENSITIVE: "true"}),
    ("OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA", "0", "OpenAI Agents SDK", ALL_SET),
    ("OPENINFERENCE_HIDE_INPUTS", "true", "OpenInference", ALL_SET),
    ("TRACELOOP_TRACE_CONTENT", "false", "Traceloop", ALL_SET),
]


@pytest.mark.parametrize(("name", "value", "framework", "beside"), COSTS)
def test_what_a_user_has_set_stays_and_a_warning_says_what_it_costs(
    installed, name, value, framework, beside, monkeypatch, caplog
):
    monkeypatch.setenv(name, value)
    observability, tracing = load("agent_framework.observability"), load("haystack.tracing.tracer")
    switch_on(application())
    assert os.environ[name] == value
    assert env() == {**beside, **({name: value} if name in VARIABLES else {})}
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    [message] = caplog.messages
    assert message == (
        f"{name}={value} is set, and stays so: of {framework} no texts, no results and no arguments will be "
        "recorded: tool references will be inconclusive"
    )
    assert bool(observability.given) is (SENSITIVE in beside)
    assert tracing.tracer.is_content_tracing_enabled is (HAYSTACK in beside)


@pytest.mark.parametrize("value", ["span_only", "SPAN_AND_EVENT"])
def test_a_users_own_setting_that_records_is_not_warned_of(installed, value, monkeypatch, caplog):
    monkeypatch.setenv(CAPTURE, value)
    switch_on(application())
    assert (os.environ[CAPTURE], caplog.messages) == (value, [])


def test_what_was_set_is_taken_back_where_the_application_records_no_content(installed, caplog):
    tracing, pydantic_ai = load("haystack.tracing.tracer"), load("pydantic_ai")
    switch_on()
    _content.set_content_capture(False)
    switch_on()
    assert (env(), caplog.messages) == ({}, [])
    assert pydantic_ai.Agent._instrument_default.content is False
    assert not tracing.tracer.is_content_tracing_enabled
    _content.set_content_capture(True)
    switch_on()
    assert (env(), pydantic_ai.Agent._instrument_default) == (ALL_SET, True)


def test_what_an_application_gave_pydantic_ai_stays(installed):
    pydantic_ai = load("pydantic_ai")
    pydantic_ai.Agent.instrument_all(own := pydantic_ai.InstrumentationSettings(include_content=False))
    switch_on()
    assert pydantic_ai.Agent._instrument_default is own


# Each door in a process of its own, with no variable set; what it prints.
DOORS = {
    "configure": "spangrade.configure('shop', db='db.duckdb')",
    "configure without content": "spangrade.configure('shop', db='db.duckdb', capture_content=False)",
    "agent": (
        "spangrade.configure('shop', db='db.duckdb')\nimport pydantic_ai\n"
        "with spangrade.agent('shop'): print(pydantic_ai.Agent._instrument_default)"
    ),
    "run": (
        "spangrade.open('db.duckdb').run('shop_agent.py:answer', [{'id': 'q', 'user_inputs': ['Hello']}])"
    ),
    "runner": (
        "from spangrade.evaluator.conversation_runner import ConversationRunner\n"
        "from spangrade.evaluator.turn import AgentTurn, UserTurn\n"
        "ConversationRunner(lambda text: 'ok', [UserTurn('Hello'), AgentTurn('ok')]).run_sync()"
    ),
}


@pytest.mark.exhaustive
@pytest.mark.parametrize("door", DOORS)
def test_each_door_switches_on(installed, door):
    seen = f"import os\nprint(os.environ.get({CAPTURE!r}))\n"
    (installed / "shop_agent.py").write_text(f"{seen}def answer(text): return 'ok'\n")
    clean = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "SPANGRADE"))}
    done = subprocess.run(
        [sys.executable, "-c", f"import spangrade\n{DOORS[door]}\n{seen}"],
        cwd=installed,
        env=clean | {"PYTHONPATH": str(installed)},
        capture_output=True,
        text=True,
        check=True,
    )
    printed = done.stdout.split()
    assert set(printed) == {
        "configure without content": {"None"},
        "agent": {"True", "SPAN_AND_EVENT"},
    }.get(door, {"SPAN_AND_EVENT"}), done.stderr


def test_the_variables_of_frameworks_have_their_names_values_and_what_records_or_hides():
    found = {
        one.name: (one.value, sorted(one.records), sorted(one.hides))
        for framework in (*FRAMEWORKS, frameworks.GENAI)
        for one in framework.variables
    }
    is_no, is_yes = ["0", "false", "no", "off"], ["1", "on", "true", "yes"]
    assert found == {
        "ADK_CAPTURE_MESSAGE_CONTENT_IN_SPANS": ("", [], is_no),
        "AUTOGEN_DISABLE_RUNTIME_TRACING": ("", [], ["true"]),
        "ENABLE_INSTRUMENTATION": ("", [], is_no),
        "ENABLE_SENSITIVE_DATA": ("true", is_yes, []),
        "HAYSTACK_CONTENT_TRACING_ENABLED": ("true", ["true"], []),
        "OPENAI_AGENTS_DISABLE_TRACING": ("", [], is_yes),
        "OPENAI_AGENTS_TRACE_INCLUDE_SENSITIVE_DATA": ("", [], is_no),
        "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": (
            "SPAN_AND_EVENT",
            ["span_and_event", "span_only"],
            [],
        ),
        "OTEL_SEMCONV_STABILITY_OPT_IN": ("gen_ai_latest_experimental", [], ["gen_ai_stable"]),
    }
