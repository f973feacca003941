"""configure(): where spans go, whose provider it is, and what the environment says."""

import http.server
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest
from opentelemetry import trace
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.collector.trace.v1.trace_service_pb2_grpc import (
    TraceServiceServicer,
    add_TraceServiceServicer_to_server,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

import spangrade
from spangrade import InputError, tracer
from spangrade.tracer import _content, configure
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.store import Store


@pytest.fixture(autouse=True)
def fresh(monkeypatch, tmp_path):
    """A process that has set no provider yet, in an empty folder, with none of our variables."""
    for name in ("SPANGRADE_DB", "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    for name in ("ENDPOINT", "TRACES_ENDPOINT", "PROTOCOL", "TRACES_PROTOCOL"):
        monkeypatch.delenv(f"OTEL_EXPORTER_OTLP_{name}", raising=False)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", None)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setattr(_content, "_override", None)
    monkeypatch.chdir(tmp_path)
    yield
    provider = trace.get_tracer_provider()
    if isinstance(provider, TracerProvider):
        provider.shutdown()


@pytest.fixture
def collector():
    """An OTLP/HTTP collector on loopback: its base URL, and the spans' names by path."""
    received = []

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"]))
            request = ExportTraceServiceRequest.FromString(body)
            received.extend((self.path, name) for name in span_names(request))
            self.send_response(200)
            self.end_headers()
            self.wfile.write(ExportTraceServiceResponse().SerializeToString())

        def log_message(self, *_args):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}", received
        server.shutdown()
        thread.join()


def span_names(request):
    return [
        span.name
        for resource in request.resource_spans
        for scope in resource.scope_spans
        for span in scope.spans
    ]


def emit(provider, name="span"):
    provider.get_tracer("test").start_span(name).end()
    provider.force_flush()


def stored(path, column="name"):
    with Store.open(path, read_only=True) as store:
        return [row[0] for row in store.connection.execute(f"SELECT {column} FROM spans").fetchall()]


def test_without_any_setting_spans_go_to_a_database_here(tmp_path):
    provider = configure()
    emit(provider)
    assert trace.get_tracer_provider() is provider
    assert stored(tmp_path / "spangrade.duckdb") == ["span"]


def test_the_database_is_the_argument_before_the_variable(tmp_path, monkeypatch):
    monkeypatch.setenv("SPANGRADE_DB", str(tmp_path / "variable.duckdb"))
    emit(configure(db=tmp_path / "argument.duckdb"))
    assert sorted(path.name for path in tmp_path.glob("*.duckdb")) == ["argument.duckdb"]


def test_the_variable_names_the_database(tmp_path, monkeypatch):
    monkeypatch.setenv("SPANGRADE_DB", str(tmp_path / "variable.duckdb"))
    emit(configure())
    assert stored(tmp_path / "variable.duckdb") == ["span"]


@pytest.mark.parametrize("suffix", ["", "/", "/v1/traces"])
def test_an_endpoint_alone_sends_to_the_collector_alone(tmp_path, collector, suffix):
    url, received = collector
    emit(configure(endpoint=url + suffix))
    assert received == [("/v1/traces", "span")]
    assert list(tmp_path.iterdir()) == []


def test_an_endpoint_and_a_database_both_get_the_spans(tmp_path, collector):
    url, received = collector
    emit(configure(db="both.duckdb", endpoint=url))
    assert received == [("/v1/traces", "span")]
    assert stored(tmp_path / "both.duckdb") == ["span"]


@pytest.mark.parametrize(
    ("variable", "suffix"),
    [("OTEL_EXPORTER_OTLP_ENDPOINT", ""), ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "/v1/traces")],
)
def test_the_endpoint_is_taken_from_opentelemetrys_variables(
    tmp_path, collector, monkeypatch, variable, suffix
):
    url, received = collector
    monkeypatch.setenv(variable, url + suffix)
    emit(configure())
    assert received == [("/v1/traces", "span")]
    assert list(tmp_path.iterdir()) == []


def test_grpc_without_its_extra_says_what_to_install(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    missing = "opentelemetry.exporter.otlp.proto.grpc.trace_exporter"
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(InputError) as refused:
        configure("agent", endpoint="http://127.0.0.1:4317")
    assert str(refused.value) == f"OTLP over gRPC needs {missing}: {to_install('grpc')}"


def test_grpc_is_spoken_where_the_protocol_says_so(monkeypatch):
    received = []

    class Collector(TraceServiceServicer):
        def Export(self, request, context):  # noqa: N802
            received.extend(span_names(request))
            return ExportTraceServiceResponse()

    server = grpc.server(ThreadPoolExecutor(1))
    add_TraceServiceServicer_to_server(Collector(), server)
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")
    emit(configure(endpoint=f"http://127.0.0.1:{port}"))
    server.stop(None)
    assert received == ["span"]


def test_an_unknown_protocol_is_refused(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "carrier-pigeon")
    with pytest.raises(InputError, match="'carrier-pigeon': use grpc or http/protobuf"):
        configure(endpoint="http://127.0.0.1:1")
    assert isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider)


def test_an_applications_provider_keeps_its_exporters_and_its_resource(tmp_path, caplog):
    own, memory = TracerProvider(resource=Resource({"service.name": "own"})), InMemorySpanExporter()
    own.add_span_processor(SimpleSpanProcessor(memory))
    trace.set_tracer_provider(own)
    provider = configure("other")
    emit(provider)
    assert provider is own
    assert [span.name for span in memory.get_finished_spans()] == ["span"]
    assert stored("spangrade.duckdb", "resource->>'service.name'") == ["own"]
    assert caplog.messages == [
        "the application's tracer provider keeps its service name 'own': 'other' is not used"
    ]


def test_an_applications_own_otlp_exporter_is_not_doubled(collector, monkeypatch):
    url, received = collector
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", url)
    own = TracerProvider()
    own.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    trace.set_tracer_provider(own)
    emit(configure())
    assert received == [("/v1/traces", "span")]


def test_a_provider_that_wraps_one_of_the_sdk_is_extended_as_logfires_is(tmp_path):
    class Wrapping(trace.TracerProvider):
        def __init__(self):
            self.provider = TracerProvider()

        def get_tracer(self, *arguments, **more):
            return self.provider.get_tracer(*arguments, **more)

    own = Wrapping()
    trace.set_tracer_provider(own)
    assert configure(db=tmp_path / "s.duckdb") is own.provider
    with own.get_tracer("shop").start_as_current_span("work"):
        pass
    own.provider.shutdown()
    with Store.open(tmp_path / "s.duckdb") as store:
        assert store.query("SELECT name FROM spans") == [("work",)]


def test_a_provider_that_cannot_be_extended_is_refused():
    trace.set_tracer_provider(trace.NoOpTracerProvider())
    with pytest.raises(InputError, match="the tracer provider is a NoOpTracerProvider"):
        configure()


def test_configuring_twice_does_not_double_the_spans(tmp_path, collector):
    url, received = collector
    provider = configure(db="one.duckdb", endpoint=url)
    processors = len(provider._active_span_processor._span_processors)
    assert configure(db=tmp_path / "one.duckdb", endpoint=url) is provider
    assert len(provider._active_span_processor._span_processors) == processors
    configure(db="two.duckdb")
    emit(provider)
    assert (received, stored("one.duckdb"), stored("two.duckdb")) == (
        [("/v1/traces", "span")],
        ["span"],
        ["span"],
    )


def test_the_service_is_named_by_the_argument_before_the_environment(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from the environment")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=ci")
    attributes = configure("from the argument").resource.attributes
    assert (attributes["service.name"], attributes["deployment.environment.name"]) == (
        "from the argument",
        "ci",
    )


def test_the_service_is_named_by_the_environment(monkeypatch):
    monkeypatch.setenv("OTEL_SERVICE_NAME", "from the environment")
    assert configure().resource.attributes["service.name"] == "from the environment"


@pytest.mark.parametrize("of_application", [True, False])
def test_every_span_has_the_version_and_the_prompt_of_configure(tmp_path, of_application):
    if of_application:
        trace.set_tracer_provider(TracerProvider(resource=Resource.create({"service.version": "0"})))
    configure("shop", "s.duckdb", version="1", prompt="p1")
    configure("shop", "s.duckdb", version="2")
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "shop"}
    for name, version in (("chat-1", None), ("chat-2", "3")):
        with tracer.session(name, version=version):
            trace.get_tracer("library").start_span("invoke_agent shop", attributes=agent).end()
    trace.get_tracer_provider().force_flush()
    query = "SELECT session_id, agent_version, prompts FROM sessions ORDER BY session_id"
    assert [tuple(row.values()) for row in spangrade.open(tmp_path / "s.duckdb").sql(query).rows()] == [
        ("chat-1", "2", ["p1"]),
        ("chat-2", "3", ["p1"]),
    ]


def test_a_disabled_sdk_sends_nothing(tmp_path, monkeypatch):
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    threads = threading.active_count()
    emit(configure())
    assert list(tmp_path.iterdir()) == []
    assert threading.active_count() == threads


def test_the_argument_decides_on_content_before_the_variable(monkeypatch):
    monkeypatch.setenv("OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT", "true")
    configure(capture_content=False)
    configure()
    assert not _content.content_captured()


@pytest.mark.parametrize(
    "own_provider",
    [
        "",
        "t.set_tracer_provider(TracerProvider(shutdown_on_exit=False))",
    ],
)
def test_spans_are_flushed_when_the_process_exits(tmp_path, own_provider):
    script = f"""
from opentelemetry import trace as t
from opentelemetry.sdk.trace import TracerProvider
{own_provider}
from spangrade.tracer import configure, turn
configure()
with turn("last words"):
    pass
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60, cwd=tmp_path)
    assert stored(tmp_path / "spangrade.duckdb") == ["turn"]


def test_the_function_is_found_in_the_package_whatever_was_imported_first():
    script = """
import spangrade.tracer.configure
import spangrade.tracer.instrument
from spangrade.tracer import configure, tool
assert callable(configure) and callable(tool)
"""
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_importing_the_package_does_not_import_the_heavy_libraries():
    script = """
import sys, spangrade.tracer
print([name for name in ("duckdb", "opentelemetry", "grpc", "nanoarrow") if name in sys.modules])
"""
    run = subprocess.run(
        [sys.executable, "-c", script], check=True, timeout=60, capture_output=True, text=True
    )
    assert run.stdout == "[]\n"
