"""Verdicts as OpenTelemetry, sent as the standard variables OTEL_EXPORTER_OTLP_* say."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import orjson

from spangrade.evaluator.apps.server.grade.deliveries import Attempt, Delivery
from spangrade.evaluator.apps.server.grade.totals import (
    INSTRUMENTS,
    Key,
    Total,
    attributes_of,
    bounds_of,
    counted,
)
from spangrade.tracer import semconv
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.installation import needing

if TYPE_CHECKING:
    from opentelemetry.sdk._logs.export import LogRecordExporter
    from opentelemetry.sdk.metrics.export import Metric, MetricExporter
    from opentelemetry.sdk.resources import Resource

REFUSED = "the OTLP endpoint refused the events"
_TIMEOUT_MS = 10_000.0


class Events:
    """Sends events over OTLP, to `endpoint` or, without one, as the variables say."""

    def __init__(self, endpoint: str | None = None, scope: str = semconv.SCOPE_OF_WATCH) -> None:
        self._logs = _log_exporter(endpoint)
        self._resource = _resource()
        self._scope = _scope(scope)

    def send(self, events: Iterable[tuple[Mapping[str, Any], int]]) -> bool:
        """Send events, each with its time, in one request; return whether they were accepted."""
        from opentelemetry._logs import LogRecord
        from opentelemetry.sdk._logs import ReadableLogRecord
        from opentelemetry.sdk._logs.export import LogRecordExportResult

        records = [
            ReadableLogRecord(
                LogRecord(
                    timestamp=time_ns,
                    observed_timestamp=time_ns,
                    context=_context(event["trace_id"], event["span_id"]),
                    event_name=semconv.EVALUATION_RESULT,
                    attributes=event["attributes"],
                ),
                self._resource,
                self._scope,
            )
            for event, time_ns in events
        ]
        return self._logs.export(records) is LogRecordExportResult.SUCCESS

    def close(self) -> None:
        """Close the connection."""
        self._logs.shutdown()  # type: ignore[no-untyped-call]


class Telemetry:
    """Sends events and metrics over OTLP, by gRPC or HTTP.

    The exporters repeat an attempt on their own, for at most OTEL_EXPORTER_OTLP_TIMEOUT (10 s). Raises
    InputError for an unknown protocol.
    """

    def __init__(self) -> None:
        self._events = Events()
        self._metrics = _metric_exporter()
        self._resource = _resource()

    def send_events(self, deliveries: Sequence[Delivery]) -> list[Attempt]:
        """Send the events of deliveries in one request; either all are accepted or none."""
        bodies = [orjson.loads(delivery.body) for delivery in deliveries]
        events = [(event, body["time_ns"]) for body in bodies for event in body["events"]]
        accepted = self._events.send(events)
        return [Attempt(one, "" if accepted else REFUSED) for one in deliveries]

    def send_metrics(self, totals: Mapping[Key, Total], now_ns: int) -> bool:
        """Send totals; return whether they were accepted. What was refused is in the next ones too."""
        from opentelemetry.sdk.metrics.export import (
            MetricExportResult,
            MetricsData,
            ResourceMetrics,
            ScopeMetrics,
        )

        scope = ScopeMetrics(_scope(semconv.SCOPE_OF_WATCH), metrics_of(totals, now_ns), "")
        exported = self._metrics.export(
            MetricsData([ResourceMetrics(self._resource, [scope], "")]), timeout_millis=_TIMEOUT_MS
        )
        return exported is MetricExportResult.SUCCESS

    def close(self) -> None:
        """Close the connections."""
        self._events.close()
        self._metrics.shutdown()


def metrics_of(totals: Mapping[Key, Total], now_ns: int) -> list[Metric]:
    """Return totals as metrics: cumulative, since the first session that was graded."""
    from opentelemetry.sdk.metrics.export import (
        AggregationTemporality,
        Histogram,
        HistogramDataPoint,
        Metric,
        NumberDataPoint,
        Sum,
    )

    metrics = []
    for name, unit, description in INSTRUMENTS.values():
        counters: list[NumberDataPoint] = []
        histograms: list[HistogramDataPoint] = []
        for key, total in totals.items():
            if key[0] != name:
                continue
            attributes, times = attributes_of(key), (min(total.start_ns, now_ns), now_ns)
            if total.buckets is None:
                counters.append(NumberDataPoint(attributes, *times, counted(name, total)))
            else:
                histograms.append(
                    HistogramDataPoint(
                        attributes,
                        *times,
                        total.count,
                        total.sum,
                        total.buckets,
                        bounds_of(name, len(total.buckets)),
                        total.min or 0.0,
                        total.max or 0.0,
                    )
                )
        cumulative = AggregationTemporality.CUMULATIVE
        if counters:
            metrics.append(Metric(name, description, unit, Sum(counters, cumulative, is_monotonic=True)))
        if histograms:
            metrics.append(Metric(name, description, unit, Histogram(histograms, cumulative)))
    return metrics


def _log_exporter(endpoint: str | None) -> LogRecordExporter:
    if _protocol("LOGS") == "grpc":
        with needing("OTLP over gRPC", "grpc"):
            from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter as OverGRPC

        return OverGRPC(endpoint)
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter as OverHTTP

    return OverHTTP(endpoint if endpoint is None else f"{endpoint}/v1/logs")


def _metric_exporter() -> MetricExporter:
    if _protocol("METRICS") == "grpc":
        with needing("OTLP over gRPC", "grpc"):
            from opentelemetry.exporter.otlp.proto.grpc.metric_exporter import OTLPMetricExporter as OverGRPC

        return OverGRPC()
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter as OverHTTP

    return OverHTTP()


def _protocol(signal: str) -> str:
    names = (f"OTEL_EXPORTER_OTLP_{signal}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
    name, protocol = next(((n, os.environ[n]) for n in names if os.environ.get(n)), ("", "http/protobuf"))
    if protocol not in ("grpc", "http/protobuf"):
        raise InputError(f"{name} is {protocol!r}: use grpc or http/protobuf")
    return protocol


def _resource() -> Resource:
    """Return our resource: OTEL_SERVICE_NAME and OTEL_RESOURCE_ATTRIBUTES take precedence."""
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    return Resource({"service.name": "spangrade"}).merge(OTELResourceDetector().detect())


def _scope(name: str) -> Any:
    from opentelemetry.sdk.util.instrumentation import InstrumentationScope

    from spangrade import __version__

    return InstrumentationScope(name, __version__)


def _context(trace_id: str, span_id: str | None) -> Any:
    from opentelemetry.context import Context
    from opentelemetry.trace import NonRecordingSpan, SpanContext, TraceFlags, set_span_in_context

    return set_span_in_context(
        NonRecordingSpan(
            SpanContext(
                _integer(trace_id),
                _integer(span_id or ""),
                is_remote=True,
                trace_flags=TraceFlags.get_default(),
            )
        ),
        Context(),
    )


def _integer(hex_id: str) -> int:
    try:
        return int(hex_id, 16)
    except ValueError:  # empty, or an id that is not OpenTelemetry's
        return 0
