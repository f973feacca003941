"""Send this process's spans to a database, a collector, or both."""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import TYPE_CHECKING

from spangrade.tracer import semconv
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.installation import needing

if TYPE_CHECKING:
    from collections.abc import Mapping

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import SpanExporter

    from spangrade.tracer.redaction import Redaction

DB_VARIABLE = "SPANGRADE_DB"
DEFAULT_DB = "spangrade.duckdb"

_ENDPOINT_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOL_VARIABLES = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")

_log = logging.getLogger("spangrade")
_configuring = threading.Lock()


def configure(
    service_name: str | None = None,
    db: str | Path | None = None,
    *,
    endpoint: str | None = None,
    capture_content: bool | None = None,
    redact: str | Redaction | None = None,
    sample: float | None = None,
    version: str | None = None,
    prompt: str | None = None,
) -> TracerProvider:
    """Send spans to `db`, to the OTLP `endpoint`, or to both, and return the tracer provider.

    `db` defaults to $SPANGRADE_DB, else to `db` of the settings (`spangrade.toml`, docs/python.md);
    `endpoint` to OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; with neither, spans go to
    `spangrade.duckdb`. `endpoint` is a base URL: `/v1/traces` is added over HTTP. OTEL_EXPORTER_OTLP_PROTOCOL
    selects grpc or http/protobuf.

    A provider that the application has set is extended and keeps its resource; otherwise one is created, set,
    and flushed at exit. Calling it again adds only new destinations. With OTEL_SDK_DISABLED nothing is sent.
    `capture_content` overrides OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT. `redact` ("off", "mask",
    "hash", or a Redaction; by default $SPANGRADE_REDACT, else that of the settings) applies to the database:
    redact the spans of an endpoint in its receiver.

    `sample` is the share of the conversations to record, from 0 to 1: whole conversations, chosen by a hash
    of their ids, for all exporters of the provider. It takes precedence over OTEL_TRACES_SAMPLER. A sampler
    that the application has set stays in force; what it drops is written in the tracestate of the spans, and
    grading takes their sessions for incomplete.

    What needs no package to record the spans and contents of the frameworks in this process is switched on,
    unless the user has set it, content is not recorded, or another processor of the provider would receive
    it, too (docs/reading.md).

    `version` is the agent's and `prompt` that of its prompts, such as a commit: every span of the provider
    has them as `gen_ai.agent.version` and `spangrade.prompt`, unless it has its own (`session(version=…)`).
    Results are compared by them: `spangrade compare --by version`, `--by prompt`.

    Raises InputError for settings that cannot be used, an unknown protocol or redaction, a `sample` outside
    its range, or a provider that cannot be extended.
    """
    if sample is not None and not (isinstance(sample, int | float) and 0 <= sample <= 1):
        raise InputError(f"sample is {sample!r}: expected a share of the conversations, from 0 to 1")
    # Imported here to keep `import spangrade.tracer` fast in a process that only reads.
    from spangrade.tracer._content import set_content_capture
    from spangrade.tracer.frameworks import switch_on

    if capture_content is not None:
        set_content_capture(capture_content)
    with _configuring:
        disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
        exporters = [] if disabled else _exporters(db, endpoint, redact)
        provider = _provider(service_name, sample)
        if version or prompt:
            _add_versions(provider, {semconv.AGENT_VERSION: version, semconv.PROMPT: prompt})
        if exporters:
            _extend(provider, exporters)
    if not disabled:
        switch_on(provider)
    return provider


def _exporters(
    db: str | Path | None, endpoint: str | None, redact: str | Redaction | None
) -> list[SpanExporter]:
    from spangrade.tracer.exporter import DuckDBSpanExporter

    db, redact = _configured(db or os.environ.get(DB_VARIABLE), redact)
    to_collector = bool(endpoint or any(map(os.environ.get, _ENDPOINT_VARIABLES)))
    collector = [_otlp_exporter(endpoint)] if to_collector else []
    if to_collector and redact not in (None, "off"):
        _log.warning("spans go to the OTLP endpoint unredacted: redact them in its receiver")
    if to_collector and not db:
        return collector
    return [DuckDBSpanExporter(db or DEFAULT_DB, redact=redact), *collector]


def _configured(
    db: str | Path | None, redact: str | Redaction | None
) -> tuple[str | Path | None, str | Redaction | None]:
    """Return the database and the redaction, from the file with settings where they are unset."""
    from spangrade.tracer.base.settings_file import find_settings
    from spangrade.tracer.redaction import VARIABLE

    is_redaction_set = redact is not None or bool(os.environ.get(VARIABLE))
    if db and is_redaction_set:
        return db, redact
    file, values = find_settings()
    if file is None or not values:
        return db, redact
    from spangrade.tracer.base.settings import load_settings

    loaded = load_settings(file)
    if "database" in loaded.sources:
        db = db or loaded.settings.database
    if not is_redaction_set:
        redact = loaded.settings.redaction.text
    return db, redact


def _extend(provider: TracerProvider, exporters: list[SpanExporter]) -> None:
    """Add the exporters whose destinations the provider does not have yet."""
    from spangrade.tracer._at_exit import FlushingSpanProcessor, flush_at_exit
    from spangrade.tracer.exporter import DuckDBSpanExporter, SessionSpanProcessor, WorkerSpanProcessor

    if not any(isinstance(processor, SessionSpanProcessor) for processor in _processors(provider)):
        provider.add_span_processor(SessionSpanProcessor())
    present = _destinations(provider)
    for exporter in exporters:
        if _destination(exporter) in present:
            exporter.shutdown()
        else:
            if isinstance(exporter, DuckDBSpanExporter):
                provider.add_span_processor(WorkerSpanProcessor(exporter))
            processor = FlushingSpanProcessor(exporter)
            provider.add_span_processor(processor)
            flush_at_exit(processor)  # an application's provider may not be flushed


def _add_versions(provider: TracerProvider, attributes: Mapping[str, str | None]) -> None:
    """Let the spans of a provider have attributes, in place of those of an earlier call."""
    from spangrade.tracer.exporter import VersionSpanProcessor

    given = {name: value for name, value in attributes.items() if value}
    present = next((one for one in _processors(provider) if isinstance(one, VersionSpanProcessor)), None)
    if present is None:
        provider.add_span_processor(VersionSpanProcessor(given))
    else:
        present.attributes = {**present.attributes, **given}


def _provider(service_name: str | None, sample: float | None) -> TracerProvider:
    """Return the application's provider, with our sampling; set one if there is none."""
    from opentelemetry import trace
    from opentelemetry.sdk.resources import SERVICE_NAME, Resource
    from opentelemetry.sdk.trace import TracerProvider

    from spangrade.tracer.sampling import ConversationSampler, set_sampling

    provider = trace.get_tracer_provider()
    if isinstance(provider, trace.ProxyTracerProvider):
        named = {SERVICE_NAME: service_name} if service_name else {}
        # Without a sampler the SDK reads OTEL_TRACES_SAMPLER; the resource reads OTEL_RESOURCE_ATTRIBUTES and
        # OTEL_SERVICE_NAME.
        sampler = None if sample is None else ConversationSampler(sample)
        provider = TracerProvider(sampler, Resource.create(named))
        set_sampling(provider, sample)
        trace.set_tracer_provider(provider)
        return provider
    wrapped = getattr(provider, "provider", None)
    if isinstance(wrapped, TracerProvider) and not isinstance(provider, TracerProvider):
        provider = wrapped  # Logfire's own, which wraps one of the SDK
    if not isinstance(provider, TracerProvider):
        raise InputError(
            f"the tracer provider is a {type(provider).__name__}, which accepts no span processors: "
            "set an opentelemetry.sdk.trace.TracerProvider, or none, before configure()"
        )
    if service_name and service_name != (present := provider.resource.attributes.get(SERVICE_NAME)):
        _log.warning(
            "the application's tracer provider keeps its service name %r: %r is not used",
            present,
            service_name,
        )
    set_sampling(provider, sample)
    return provider


def _otlp_exporter(endpoint: str | None) -> SpanExporter:
    """Return an OTLP exporter; without an endpoint, the exporter reads the environment."""
    protocol = next(filter(None, map(os.environ.get, _PROTOCOL_VARIABLES)), "http/protobuf")
    if protocol == "grpc":
        with needing("OTLP over gRPC", "grpc"):
            from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter as OverGRPC

        return OverGRPC(endpoint=endpoint)
    if protocol == "http/protobuf":
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter as OverHTTP

        return OverHTTP(endpoint=endpoint and f"{endpoint.removesuffix('/v1/traces').rstrip('/')}/v1/traces")
    raise InputError(f"OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}: use grpc or http/protobuf")


def _processors(provider: TracerProvider) -> tuple[object, ...]:
    # The SDK has no public API for this. If the attribute is renamed, a second configure() sends spans twice
    # (the store still keeps each once).
    return tuple(getattr(provider._active_span_processor, "_span_processors", ()))


def _destinations(provider: TracerProvider) -> set[tuple[str, str]]:
    exporters = (getattr(processor, "span_exporter", None) for processor in _processors(provider))
    return {_destination(exporter) for exporter in exporters if exporter is not None}


def _destination(exporter: object) -> tuple[str, str]:
    where = getattr(exporter, "db", None) or getattr(exporter, "_endpoint", id(exporter))
    return type(exporter).__qualname__, str(where)
