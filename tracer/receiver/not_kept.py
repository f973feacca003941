"""OTLP metrics and profiles: they are counted and not kept, and the answer says so."""

from __future__ import annotations

from typing import Any, Literal

from google.protobuf.json_format import Parse, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import (
    ExportMetricsServiceRequest,
    ExportMetricsServiceResponse,
)
from opentelemetry.proto.collector.profiles.v1development.profiles_service_pb2 import (
    ExportProfilesServiceRequest,
    ExportProfilesServiceResponse,
)

from spangrade.tracer.receiver.limits import malformed

NotKept = Literal["metrics", "profiles"]
_REQUESTS: dict[NotKept, Any] = {
    "metrics": ExportMetricsServiceRequest,
    "profiles": ExportProfilesServiceRequest,
}


def answer_to(
    signal: NotKept, body: bytes, encoding: str
) -> ExportMetricsServiceResponse | ExportProfilesServiceResponse:
    """Return the answer that rejects all of a request. Raises RejectedError if it cannot be read."""
    request = _REQUESTS[signal]()
    try:
        if encoding == "json":
            Parse(body, request, ignore_unknown_fields=True)
        else:
            request.ParseFromString(body)
    except (DecodeError, ParseError, UnicodeDecodeError) as error:
        raise malformed(f"the request is not OTLP {signal}: {type(error).__name__}") from None
    message = f"spangrade keeps spans and logs: {signal} are dropped; do not send them here"
    if signal == "profiles":
        profiles = ExportProfilesServiceResponse()
        profiles.partial_success.rejected_profiles = sum(
            len(scope.profiles) for resource in request.resource_profiles for scope in resource.scope_profiles
        )
        profiles.partial_success.error_message = message
        return profiles
    metrics = ExportMetricsServiceResponse()
    metrics.partial_success.rejected_data_points = sum(
        len(getattr(metric, kind).data_points)
        for resource in request.resource_metrics
        for scope in resource.scope_metrics
        for metric in scope.metrics
        if (kind := metric.WhichOneof("data"))
    )
    metrics.partial_success.error_message = message
    return metrics
