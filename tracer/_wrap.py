"""A function wrapped so that each call of it, or each run of its generator, is one operation.

A generator's own steps run inside the operation, its consumer's outside it: between two steps nothing of
ours is current, so that a span of the consumer's never becomes a child by accident, and a generator that
is finished in another task or thread has nothing there to undo.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, Callable, Generator
from functools import partial, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spangrade.tracer._operation import Operation

Arguments = dict[str, Any]


def wrapped(function: Callable[..., Any], opening: Callable[[], Operation]) -> Callable[..., Any]:
    """Return `function` with an operation from `opening` around each call or each run of its generator."""
    arguments = _arguments_of(function)
    if inspect.isasyncgenfunction(function):
        return wraps(function)(_async_generator(function, opening, arguments))
    if inspect.isgeneratorfunction(function):
        return wraps(function)(_generator(function, opening, arguments))
    if inspect.iscoroutinefunction(function):

        @wraps(function)
        async def coroutine(*args: Any, **kwargs: Any) -> Any:
            with opening() as operation:
                operation.called(arguments(args, kwargs))
                value = await function(*args, **kwargs)
                operation.returned(value)
                return value

        return coroutine

    @wraps(function)
    def plain(*args: Any, **kwargs: Any) -> Any:
        with opening() as operation:
            operation.called(arguments(args, kwargs))
            value = function(*args, **kwargs)
            operation.returned(value)
            return value

    return plain


def _generator(
    function: Callable[..., Generator[Any, Any, Any]],
    opening: Callable[[], Operation],
    arguments: Callable[[Any, Any], Arguments],
) -> Callable[..., Generator[Any, Any, Any]]:
    def run(*args: Any, **kwargs: Any) -> Generator[Any, Any, Any]:
        operation = opening()
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
                except BaseException as thrown:  # noqa: BLE001 (whatever it is, it is the generator's)
                    resume = partial(generator.throw, thrown)
                else:
                    resume = partial(generator.send, sent)
        except BaseException as error:
            operation.finish(error)
            raise

    return run


def _async_generator(
    function: Callable[..., AsyncGenerator[Any, Any]],
    opening: Callable[[], Operation],
    arguments: Callable[[Any, Any], Arguments],
) -> Callable[..., AsyncGenerator[Any, Any]]:
    async def run(*args: Any, **kwargs: Any) -> AsyncGenerator[Any, Any]:
        operation = opening()
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
                except BaseException as thrown:  # noqa: BLE001 (whatever it is, it is the generator's)
                    resume = partial(generator.athrow, thrown)
                else:
                    resume = partial(generator.asend, sent)
        except BaseException as error:
            operation.finish(error)
            raise

    return run


def _arguments_of(function: Callable[..., Any]) -> Callable[[Any, Any], Arguments]:
    """Return what tells a call's arguments by name: as they were passed, without `self` and defaults."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some of those written in C have none
        return lambda _args, kwargs: dict(kwargs)
    rest = {p.name for p in signature.parameters.values() if p.kind is inspect.Parameter.VAR_KEYWORD}
    instance = {name for name in list(signature.parameters)[:1] if name in {"self", "cls"}}

    def bind(args: Any, kwargs: Any) -> Arguments:
        try:
            bound = signature.bind(*args, **kwargs).arguments
        except TypeError:  # the call itself is about to say so
            return dict(kwargs)
        named = {name: value for name, value in bound.items() if name not in rest | instance}
        for name in rest:
            named.update(bound.get(name, {}))
        return named

    return bind
