"""Wrap functions so that each call is one operation, which lasts until what the call returned has ended.

A generator, a coroutine or another iterator belongs to the context of the call that made it, wherever it is
consumed: a web server consumes a streamed answer after the handler has returned, and outside its `session()`.
A generator runs inside its operation and its consumer outside it: between two steps the span is not current.
So a consumer's span never becomes a child by accident, and a generator may end in another task or thread.
"""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
from functools import partial
from types import AsyncGeneratorType, CoroutineType, FunctionType, GeneratorType, MethodType
from typing import Any, Protocol, Self, TypeVar, cast

from opentelemetry import context as otel
from opentelemetry.context import Context

Arguments = dict[str, Any]
Function = Callable[..., Any]
S = TypeVar("S")


class Recording(Protocol):
    """The parts of an operation that a wrapped function calls."""

    is_recorded: bool

    def start(self, context: Context | None = None) -> None:
        """Open the span in a context without making it current."""

    def run(self, function: Function, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """Return what the function returns."""

    def enter(self) -> None:
        """Make the span current, for a call or for one step of a generator."""

    def leave(self) -> None:
        """Restore the context that was current before; the next step resumes the one it leaves."""

    def called(self, name_arguments: Callable[[], Arguments]) -> None:
        """Record the call's arguments."""

    def returned(self, value: Any) -> None:
        """Record the value that was returned or, if it is None, the items that were yielded."""

    def yielded(self, item: Any) -> None:
        """Record an item of a stream."""

    def cut_off(self, error: BaseException | None = None) -> None:
        """Record the values yielded so far, mark the rest as not taken, and end the span if it is open."""

    def finish(self, error: BaseException | None = None) -> None:
        """End the span if it is open."""


def wrapped(function: Function, new: Callable[[], Recording], is_recording: Callable[[], bool]) -> Function:
    """Return `function` with an operation from `new` around each call, as long as `is_recording()`."""
    arguments = _arguments_of(function)

    follow = _follow(function)
    if follow is not None:
        # Its code runs when it is consumed: then the operation starts, in the context of the call.
        def call(*args: Any, **kwargs: Any) -> Any:
            if not is_recording():
                return function(*args, **kwargs)
            operation, context = new(), otel.get_current()

            def begin() -> Any:
                operation.start(context)
                if operation.is_recorded:
                    operation.called(lambda: arguments(args, kwargs))
                return operation.run(function, args, kwargs)

            followed = follow(operation, begin)
            followed.__name__, followed.__qualname__ = function.__name__, function.__qualname__
            return followed

        return cast(Function, _Function(function, call))

    @functools.wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        if not is_recording():
            return function(*args, **kwargs)
        operation = new()
        operation.start()
        if operation.is_recorded:
            operation.called(lambda: arguments(args, kwargs))
        operation.enter()
        try:
            value = operation.run(function, args, kwargs)
            followed = _followed(value, operation)
            if followed is None and operation.is_recorded:
                operation.returned(value)
        except BaseException as error:
            operation.leave()
            operation.finish(error)
            raise
        operation.leave()
        if followed is not None:
            return followed
        operation.finish()
        return value

    return plain


class _Function:
    """Stands for a generator function or a coroutine function, and looks like it to `inspect`.

    Frameworks ask `inspect` for the kind of a function. A real generator or coroutine function cannot see the
    context in which it is called: its code runs later.
    """

    __class__ = property(lambda _: FunctionType)

    def __init__(self, function: Function, call: Function) -> None:
        functools.update_wrapper(self, function)
        self._call = call

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._call(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        if name == "__wrapped__":  # not yet there
            raise AttributeError(name)
        return getattr(self.__wrapped__, name)  # __code__, __defaults__, …

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> str:
        return str(self.__qualname__)  # by its name, like any function

    def __copy__(self) -> Self:
        return self

    def __deepcopy__(self, _: object) -> Self:
        return self

    def __repr__(self) -> str:
        return repr(self.__wrapped__)


def _follow(function: Function) -> Callable[..., Any] | None:
    """Return the function that follows a generator or coroutine, None for a plain function."""
    if inspect.isasyncgenfunction(function):
        return _async_generator
    if inspect.isgeneratorfunction(function):
        return _generator
    return _coroutine if inspect.iscoroutinefunction(function) else None


def _followed(value: Any, operation: Recording) -> Any:
    """Return a stream or coroutine that was returned such that it ends the operation; None for other values.

    Of other iterators, those that are written in Python: files, cursors and the like are not answers.
    """
    kind = type(value)
    if kind in _FOLLOWED:
        return _FOLLOWED[kind](operation, lambda: value)
    if isinstance(getattr(kind, "__anext__", None), FunctionType):
        return _AsyncIterator(value, _async_generator(operation, lambda: (item async for item in value)))
    if isinstance(getattr(kind, "__next__", None), FunctionType):
        return _Iterator(value, _generator(operation, lambda: (item for item in value)))
    return None


class _Proxy:
    """An iterator of some class, of which the items are followed."""

    def __init__(self, iterator: Any, followed: Any) -> None:
        self._iterator = iterator
        self._followed = followed

    __class__ = property(lambda self: type(self._iterator))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._iterator, name)


class _Iterator(_Proxy):
    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        return next(self._followed)

    def __enter__(self) -> Self:
        self._iterator.__enter__()
        return self

    def __exit__(self, *raised: Any) -> Any:
        self._followed.close()
        return self._iterator.__exit__(*raised)


class _AsyncIterator(_Proxy):
    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Any:
        return await anext(self._followed)

    async def __aenter__(self) -> Self:
        await self._iterator.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> Any:
        await self._followed.aclose()
        return await self._iterator.__aexit__(*raised)


def _generator(
    operation: Recording, begin: Callable[[], Generator[Any, Any, Any]]
) -> Generator[Any, Any, Any]:
    return _ended_by_collector(_drive(operation, begin), operation)


def _async_generator(
    operation: Recording, begin: Callable[[], AsyncGenerator[Any, Any]]
) -> AsyncGenerator[Any, Any]:
    return _ended_by_collector(_drive_async(operation, begin), operation)


def _ended_by_collector(stream: S, operation: Recording) -> S:
    """Return a stream whose operation ends with it if nobody takes the rest, also at the process's exit."""
    weakref.finalize(stream, operation.cut_off)
    return stream


def _drive(operation: Recording, begin: Callable[[], Generator[Any, Any, Any]]) -> Generator[Any, Any, Any]:
    try:
        generator = begin()
        resume = partial(next, generator)
        while True:
            operation.enter()
            try:
                item = resume()
            except StopIteration as stop:
                operation.returned(stop.value)
                return stop.value
            finally:
                operation.leave()
            operation.yielded(item)
            try:
                sent = yield item
            except GeneratorExit:
                operation.enter()
                try:
                    generator.close()
                finally:
                    operation.leave()
                raise
            except BaseException as thrown:  # noqa: BLE001 (the generator decides what to do with it)
                resume = partial(generator.throw, thrown)
            else:
                resume = partial(generator.send, sent)
    except Exception as error:
        operation.finish(error)
        raise
    except BaseException as error:
        operation.cut_off(error)
        raise
    finally:
        operation.finish()


async def _drive_async(
    operation: Recording, begin: Callable[[], AsyncGenerator[Any, Any]]
) -> AsyncGenerator[Any, Any]:
    try:
        generator = begin()
        resume: Callable[[], Any] = generator.__anext__
        while True:
            operation.enter()
            try:
                item = await resume()
            except StopAsyncIteration:
                operation.returned(None)
                return
            finally:
                operation.leave()
            operation.yielded(item)
            try:
                sent = yield item
            except GeneratorExit:
                operation.enter()
                try:
                    await generator.aclose()
                finally:
                    operation.leave()
                raise
            except BaseException as thrown:  # noqa: BLE001 (the generator decides what to do with it)
                resume = partial(generator.athrow, thrown)
            else:
                resume = partial(generator.asend, sent)
    except Exception as error:
        operation.finish(error)
        raise
    except BaseException as error:
        operation.cut_off(error)
        raise
    finally:
        operation.finish()


async def _coroutine(operation: Recording, begin: Callable[[], Awaitable[Any]]) -> Any:
    try:
        awaitable = begin()
        operation.enter()
        try:
            value = await awaitable
        finally:
            operation.leave()
        followed = _followed(value, operation)
    except BaseException as error:
        operation.finish(error)
        raise
    if followed is not None:
        return followed
    if operation.is_recorded:
        operation.returned(value)
    operation.finish()
    return value


_FOLLOWED: dict[type, Callable[..., Any]] = {
    GeneratorType: _generator,
    AsyncGeneratorType: _async_generator,
    CoroutineType: _coroutine,
}


def _arguments_of(function: Function) -> Callable[[Any, Any], Arguments]:
    """Return a function that names a call's arguments: as they were passed, without `self` and defaults."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return lambda _args, kwargs: dict(kwargs)
    parameters = signature.parameters.values()
    rest = {p.name for p in parameters if p.kind is inspect.Parameter.VAR_KEYWORD}
    instance = {name for name in list(signature.parameters)[:1] if name in {"self", "cls"}}
    names = [p.name for p in parameters]
    is_simple = all(p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD for p in parameters) and not instance

    def bind(args: Any, kwargs: Any) -> Arguments:
        if is_simple and len(args) <= len(names):  # a tenth of the time
            return {**dict(zip(names, args, strict=False)), **kwargs}
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself is about to raise it
            return dict(kwargs)
        named = {name: value for name, value in bound.items() if name not in rest | instance}
        for name in rest:
            named.update(bound.get(name, {}))
        return named

    return bind
