"""Decode an OTLP protobuf request record by record, where one that is not valid makes the whole unreadable.

Protobuf rejects a message for one string that is not UTF-8, at any depth. Here the outer messages are read
with their parts as bytes, and each part is parsed by itself: only the broken ones are left out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar

from google.protobuf.descriptor_pb2 import DescriptorProto, FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message import DecodeError
from google.protobuf.message_factory import GetMessageClass
from opentelemetry.proto.common.v1.common_pb2 import InstrumentationScope
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord as ProtoLog
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import Span as ProtoSpan

from spangrade.tracer.otlp.common import MalformedError, ScopeGroup, decoded, log_warnings, span_warnings
from spangrade.tracer.otlp.protobuf import decode_log, decode_span, resource_attributes
from spangrade.tracer.span import LogRecord, Problem, Span
from spangrade.tracer.store.arrow import Table

T = TypeVar("T")

_BROKEN = "not valid protobuf (a string that is not UTF-8?)"


def table_of(body: bytes) -> Table | None:
    """Return the table of the records in a request; None if it is not a request with a valid record."""
    try:
        request = _request_class().FromString(body)
    except DecodeError:
        return None
    for content in (record for group in request.groups for scope in group.groups for record in scope.records):
        with suppress(MalformedError):
            span = _parsed(ProtoSpan, content)
            if len(span.trace_id) == 16 and len(span.span_id) == 8:
                return "spans"
        with suppress(MalformedError):
            log = _parsed(ProtoLog, content)
            if log.time_unix_nano or log.observed_time_unix_nano:
                return "logs"
    return None


def decode(body: bytes, table: Table) -> Iterator[Span | LogRecord | Problem]:
    """Return a request's records in their order, and Problems; raise DecodeError if it is not a request."""
    request = _request_class().FromString(body)
    if table == "spans":
        groups = _groups(request, "resource_spans", "scope_spans", "spans")
        return decoded(groups, _each(ProtoSpan, decode_span), span_warnings)
    groups = _groups(request, "resource_logs", "scope_logs", "log_records")
    return decoded(groups, _each(ProtoLog, decode_log), log_warnings)


def _groups(request: Any, signal: str, scopes: str, members: str) -> Iterator[ScopeGroup | Problem]:
    for i, per_resource in enumerate(request.groups):
        resource = {}
        try:
            resource = resource_attributes(_parsed(Resource, per_resource.shared))
        except MalformedError as error:
            yield Problem(
                f"{signal}[{i}]", f"{error}; its records are kept without a resource", dropped=False
            )
        for j, per_scope in enumerate(per_resource.groups):
            where, scope = f"{signal}[{i}].{scopes}[{j}].{members}", InstrumentationScope()
            try:
                scope = _parsed(InstrumentationScope, per_scope.shared)
            except MalformedError as error:
                yield Problem(where, f"{error}; its records are kept without a scope", dropped=False)
            yield ScopeGroup(where, per_scope.records, resource, scope.name or None, scope.version or None)


def _each(kind: Any, decode_record: Callable[[Any, ScopeGroup], T]) -> Callable[[bytes, ScopeGroup], T]:
    return lambda content, group: decode_record(_parsed(kind, content), group)


def _parsed(kind: Any, content: bytes) -> Any:
    try:
        return kind.FromString(content)
    except DecodeError:
        raise MalformedError(f"the {kind.DESCRIPTOR.name} is {_BROKEN}") from None


@cache
def _request_class() -> Any:
    """Return the class of export requests of both signals, whose parts are bytes."""
    file = FileDescriptorProto(name="spangrade/request.proto", package="spangrade", syntax="proto3")
    repeated, one = FieldDescriptorProto.LABEL_REPEATED, FieldDescriptorProto.LABEL_OPTIONAL
    _add(file.message_type.add(name="Scope"), [("shared", 1, one, ""), ("records", 2, repeated, "")])
    _add(file.message_type.add(name="Group"), [("shared", 1, one, ""), ("groups", 2, repeated, "Scope")])
    _add(file.message_type.add(name="Request"), [("groups", 1, repeated, "Group")])
    pool = DescriptorPool()
    pool.Add(file)
    return GetMessageClass(pool.FindMessageTypeByName("spangrade.Request"))


def _add(message: DescriptorProto, fields: list[tuple[str, int, Any, str]]) -> None:
    for name, number, label, kind in fields:
        field = message.field.add(name=name, number=number, label=label)
        field.type = FieldDescriptorProto.TYPE_MESSAGE if kind else FieldDescriptorProto.TYPE_BYTES
        if kind:
            field.type_name = f".spangrade.{kind}"
