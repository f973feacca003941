"""Wrap functions so that each call, or each run of a generator, is one operation.

A generator runs inside its operation and its consumer outside it: between two steps the span is not current.
So a consumer's span never becomes a child by accident, and a generator may end in another task or thread.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator, Sequence
from contextlib import AbstractContextManager
from functools import partial, wraps
from typing import Any, Protocol

Arguments = dict[str, Any]


class Recording(AbstractContextManager[Any], Protocol):
    """What a wrapped function needs of an operation: a `with` block for a call, steps for a generator."""

    def start(self) -> None:
        """Open the span without making it current."""

    def step(self) -> AbstractContextManager[None]:
        """Make the span current for one step of a generator."""
        ...

    def finish(self, error: BaseException | None = None) -> None:
        """End the span."""

    @property
    def collects(self) -> bool:
        """Whether `returned` needs the items that a generator yielded."""
        ...

    def called(self, arguments: Arguments) -> None:
        """Record the call's arguments."""

    def returned(self, value: Any, yielded: Sequence[Any] = ()) -> None:
        """Record the value that was returned and, if `collects`, the items that were yielded before."""


def wrapped(function: Callable[..., Any], new: Callable[[], Recording]) -> Callable[..., Any]:
    """Return `function` with an operation from `new` around each call or each run of its generator."""
    arguments = _arguments_of(function)
    if inspect.isasyncgenfunction(function):
        return wraps(function)(_async_generator(function, new, arguments))
    if inspect.isgeneratorfunction(function):
        return wraps(function)(_generator(function, new, arguments))
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with new() as operation:
                operation.called(arguments(args, kwargs))
                value = await function(*args, **kwargs)
                operation.returned(value)
                return value

        return coroutine

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with new() as operation:
            operation.called(arguments(args, kwargs))
            value = function(*args, **kwargs)
            operation.returned(value)
            return value

    return plain


def _generator(
    function: Callable[..., Generator[Any, Any, Any]],
    new: Callable[[], Recording],
    arguments: Callable[[Any, Any], Arguments],
) -> Callable[..., Generator[Any, Any, Any]]:
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        operation = new()
        yielded: list[Any] = []
        operation.start()
        operation.called(arguments(args, kwargs))
        try:
            generator = function(*args, **kwargs)
            resume = partial(next, generator)
            while True:
                with operation.step():
                    try:
                        item = resume()
                    except StopIteration as stop:
                        operation.returned(stop.value, yielded)
                        operation.finish()
                        return stop.value
                if operation.collects:
                    yielded.append(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with operation.step():
                        generator.close()
                    operation.returned(None, yielded)
                    raise
                except BaseException as thrown:  # noqa: BLE001 (the generator decides what to do with it)
                    resume = partial(generator.throw, thrown)
                else:
                    resume = partial(generator.send, sent)
        except BaseException as error:
            operation.finish(error)
            raise

    return run


def _async_generator(
    function: Callable[..., AsyncGenerator[Any, Any]],
    new: Callable[[], Recording],
    arguments: Callable[[Any, Any], Arguments],
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        operation = new()
        yielded: list[Any] = []
        operation.start()
        operation.called(arguments(args, kwargs))
        try:
            generator = function(*args, **kwargs)
            resume: Callable[[], Any] = generator.__anext__
            while True:
                with operation.step():
                    try:
                        item = await resume()
                    except StopAsyncIteration:
                        operation.returned(None, yielded)
                        operation.finish()
                        return
                if operation.collects:
                    yielded.append(item)
                try:
                    sent = yield item
                except GeneratorExit:
                    with operation.step():
                        await generator.aclose()
                    operation.returned(None, yielded)
                    raise
                except BaseException as thrown:  # noqa: BLE001 (the generator decides what to do with it)
                    resume = partial(generator.athrow, thrown)
                else:
                    resume = partial(generator.asend, sent)
        except BaseException as error:
            operation.finish(error)
            raise

    return run


def _arguments_of(function: Callable[..., Any]) -> Callable[[Any, Any], Arguments]:
    """Return a function that names a call's arguments: as they were passed, without `self` and defaults."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions written in C have no signature
        return lambda _args, kwargs: dict(kwargs)
    rest = {p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD}
    instance = {name for name in list(signature.parameters)[:1] if name in {"self", "cls"}}

    def bind(args: Any, kwargs: Any) -> Arguments:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself is about to raise it
            return dict(kwargs)
        named = {name: value for name, value in bound.items() if name not in rest | instance}
        for name in rest:
            named.update(bound.get(name, {}))
        return named

    return bind
