"""The current session and its open operations, carried by OpenTelemetry's context.

So they go wherever the current span goes: into tasks that asyncio starts, and into threads that run in a copy
of the context.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from types import FrameType, TracebackType
from typing import Any, ClassVar, ParamSpec, Self, TypeVar, cast

from opentelemetry import context as otel
from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace import NoOpTracer, SpanKind, Status, StatusCode

from spangrade.tracer import semconv
from spangrade.tracer._content import content_captured
from spangrade.tracer._wrap import wrapped
from spangrade.tracer.base.canonical_json import dumps, json_value, plain_text
from spangrade.tracer.base.errors import text_of, type_name
from spangrade.tracer.faults import Faults

_log = logging.getLogger("spangrade")
_tracer = trace.get_tracer(semconv.SCOPE)  # a proxy: it uses a provider that is set later
_SESSION = otel.create_key("spangrade-session")
_OPERATION = otel.create_key("spangrade-operation")
_OUR_MODULES = ("spangrade.tracer.", "contextlib")
_LOG_EVERY_S = 60
_MAX_PLACES = 1_000
_logged_s: dict[str, float] = {}  # when each place in the agent's code was last logged

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])
O = TypeVar("O", bound="Operation")  # noqa: E741


def is_recording() -> bool:
    """Return whether a provider is set: without one no span is recorded, and nothing needs to be done."""
    # The public `get_tracer_provider` takes 2 µs, this 0.2.
    return not isinstance(getattr(_tracer, "_tracer", None), NoOpTracer)


def never_raising(method: Callable[P, None]) -> Callable[P, None]:
    """Return `method` such that its errors never raise into the agent.

    The logger gets one line with the place in the agent's code, at most once a minute per place (with the
    traceback if it logs DEBUG), and the span an attribute that `lint` reports.
    """

    @functools.wraps(method)
    def safe(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(*args, **kwargs)
        except Exception as error:  # noqa: BLE001 (telemetry must never stop the agent)
            operation = args[0] if args and isinstance(args[0], Operation) else None
            _report(method.__qualname__, error, operation.span if operation else trace.get_current_span())

    return safe


def _report(method: str, error: Exception, span: trace.Span) -> None:
    place = _callers_line()
    with contextlib.suppress(Exception):
        span.set_attribute(semconv.NOT_RECORDED, f"{method} at {place}")
    now_s = time.monotonic()
    if now_s - _logged_s.get(place, -_LOG_EVERY_S) < _LOG_EVERY_S:
        return
    if len(_logged_s) >= _MAX_PLACES:
        _logged_s.clear()
    _logged_s[place] = now_s
    reason = f"{type_name(error)}: {' '.join(plain_text(error).split()):.300}"
    _log.warning(
        "%s: %s could not be recorded: %s", place, method, reason, exc_info=_log.isEnabledFor(logging.DEBUG)
    )


def _callers_line() -> str:
    """Return `file:line` of the innermost frame that is not the tracer's."""
    frame: FrameType | None = sys._getframe(1)
    while frame and frame.f_globals.get("__name__", "").startswith(_OUR_MODULES):
        frame = frame.f_back
    return f"{frame.f_code.co_filename}:{frame.f_lineno}" if frame else "unknown"


class _Scope:
    """A context that is current until `leave` is called."""

    def __init__(self, context: Context) -> None:
        self._outer, self._inner = otel.get_current(), context
        self._token = otel.attach(context)

    def leave(self) -> None:
        """Restore the context that was current before, whatever is current by now."""
        try:
            self._token.var.reset(self._token)
        except ValueError:  # it ends in another task, which may have a copy of the context or an own one
            if otel.get_current() is self._inner:
                otel.attach(self._outer)


class CurrentSession:
    """One conversation, not a span: every span inside it carries its id."""

    def __init__(
        self,
        conversation_id: str | None,
        *,
        question_id: str | None = None,
        user_id: str | None = None,
        tags: tuple[str, ...] = (),
        version: str | None = None,
    ) -> None:
        self.is_named = bool(conversation_id)
        self.conversation_id = conversation_id or uuid.uuid4().hex
        self.question_id = question_id
        self.user_id = user_id
        self.tags = tags
        self.version = version
        self.faults: Faults | None = None  # of a drill
        self._scope: _Scope | None = None

    def __enter__(self) -> Self:
        self._scope = _Scope(otel.set_value(_SESSION, self))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._scope:
            self._scope.leave()


def current_session(context: Context | None = None) -> CurrentSession | None:
    """Return the session that is open in `context` (the current one by default), None outside a session."""
    session = otel.get_value(_SESSION, context)
    return session if isinstance(session, CurrentSession) else None


def session_attributes(session: CurrentSession, *, root: bool) -> dict[str, str | tuple[str, ...]]:
    """Return a session's attributes for the spans inside it: id and version; for roots, all of them."""
    attributes = {
        semconv.CONVERSATION_ID: session.conversation_id,
        semconv.AGENT_VERSION: session.version,
        semconv.QUESTION_ID: session.question_id if root else None,
        semconv.USER_ID: session.user_id if root else None,
        semconv.TAGS: session.tags or None if root else None,
    }
    return {key: value for key, value in attributes.items() if value is not None}


# Of asyncio and of trio: by name, so that neither is imported.
_QUALIFIED_NAME = type.__dict__["__qualname__"]  # whatever the metaclass says
_CANCELLATIONS = frozenset({"CancelledError", "Cancelled"})


class Operation:
    """A span of the agent, open while its block, or a call of the decorated function, runs.

    An operation that was never started, such as `current_tool()` outside a tool, records nothing.
    """

    span_kind: ClassVar[SpanKind] = SpanKind.INTERNAL
    opens_turn: ClassVar[bool] = False

    def __init__(self, span_name: str, attributes: Mapping[str, object]) -> None:
        self.span: trace.Span = trace.INVALID_SPAN
        self.enclosing: Operation | None = None
        self._span_name = span_name
        self._session: CurrentSession | None = None
        self.end_ns: int | None = None  # when it ended, if that is before it is finished
        self.is_recorded = False  # whether the span is open and sampled when it starts
        self._is_open = False
        self._yielded: list[Any] = []  # the items of a stream
        self._attributes: dict[str, Any] = {
            key: value if value is True else plain_text(value)
            for key, value in attributes.items()
            if value is not None
        }
        self._context: Context | None = None
        self._scope: _Scope | None = None

    def run(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the decorated function returns."""
        return function(*args, **kwargs)

    def __enter__(self) -> Self:
        self.start()
        self.enter()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.leave()
        self.finish(error)

    def __call__(self, function: F) -> F:
        """Decorate a function: each call, or each run of a generator, is one operation."""
        return cast(F, wrapped(function, self._copy, is_recording))

    def _copy(self) -> Self:
        copied = object.__new__(type(self))  # a fifth of the time of copy.copy
        copied.__dict__.update(self.__dict__)
        copied._yielded = []
        return copied

    @never_raising
    def start(self, context: Context | None = None) -> None:
        """Open the span without making it current, in a context (the current one by default)."""
        context = otel.get_current() if context is None else context  # looked up once: it takes 0.4 µs
        self.enclosing = current(Operation, context)
        session = self._session = current_session(context)
        attributes = self._attributes
        if session is not None:
            outermost = self.enclosing is None or self.enclosing._session is not session
            attributes = attributes | session_attributes(session, root=self.opens_turn or outermost)
        self.span = _tracer.start_span(self._span_name, context, kind=self.span_kind, attributes=attributes)
        self._is_open = True
        self.is_recorded = self.span.is_recording()
        self._context = otel.set_value(_OPERATION, self, trace.set_span_in_context(self.span, context))

    def enter(self) -> None:
        """Make the span current, for a block or for one step of a generator."""
        self._scope = _Scope(self._context or otel.get_current())

    def leave(self) -> None:
        """Restore the context that was current before; the next step resumes the one that this leaves."""
        if self._scope:
            self._context = otel.get_current()
            self._scope.leave()

    @never_raising
    def finish(self, error: BaseException | None = None) -> None:
        """End the span and record an exception; a cancellation or an early close does not set the status."""
        if not self._is_open:
            return
        self._is_open = False
        try:
            if isinstance(error, Exception):
                self.failed(error)
            elif error is not None and type_name(error) in _CANCELLATIONS:
                self.span.record_exception(error)
        finally:
            self.span.end(self.end_ns)

    @never_raising
    def failed(self, error: BaseException) -> None:
        """Record an exception as the reason why the operation failed."""
        if self.span.is_recording():
            self.span.set_attribute(semconv.ERROR_TYPE, _qualified_name(error))
            self.span.set_status(Status(StatusCode.ERROR, text_of(error)))
            with contextlib.suppress(BaseException):  # of the exception's own text
                self.span.record_exception(error)

    @never_raising
    def cut_off(self, error: BaseException | None = None) -> None:
        """Record the values yielded so far, mark the operation as cut off, and end the span."""
        if self._is_open:
            if self._yielded:
                self.returned(None)
            self._set(semconv.CUT_OFF, True)
            self.finish(error)

    @property
    def records_content(self) -> bool:
        """Whether the span is open and content is captured."""
        return self.span.is_recording() and content_captured()

    def called(self, name_arguments: Callable[[], dict[str, Any]]) -> None:
        """Record the arguments of a call of the decorated function."""

    def yielded(self, item: Any) -> None:
        """Keep an item of a stream for `returned`."""

    def returned(self, value: Any) -> None:
        """Record the value that was returned or, if it is None, the items that were yielded."""

    @never_raising
    def _set(self, key: str, value: Any) -> None:
        if value is not None:
            self.span.set_attribute(key, value)

    def _set_text(self, key: str, value: object) -> None:
        if self.records_content:
            self.span.set_attribute(key, plain_text(value))

    def _set_json(self, key: str, value: object) -> None:
        if self.records_content:
            self.span.set_attribute(key, dumps(json_value(value)))


def current(kind: type[O], context: Context | None = None) -> O | None:
    """Return the innermost open operation of a kind in a context, None if there is none."""
    operation = otel.get_value(_OPERATION, context)
    while isinstance(operation, Operation):
        if isinstance(operation, kind):
            return operation
        operation = operation.enclosing
    return None


def _qualified_name(error: BaseException) -> str:
    name, module = _QUALIFIED_NAME.__get__(type(error)), type(error).__module__
    return name if module == "builtins" else f"{module}.{name}"
