"""The commands that work on a database file and not on a lake: each says in one line what to do."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, get_type_hints

import typer

from spangrade.tracer.errors import InputError

_UPDATE = "`spangrade lake update` derives and grades what has landed"
INSTEAD = {
    "delete": "`spangrade lake delete` deletes from one",
    "derive": "`spangrade lake derive` derives all of it again",
    "import": f"{_UPDATE}, `spangrade lake import` imports a database file",
    "run": "it stores sessions in a database file (--db)",
    "watch": f"{_UPDATE}: run it at intervals",
}


def without_lake(command: Callable[..., None], name: str) -> Callable[..., None]:
    """Return a command that refuses the option `--lake`."""

    def refuse(value: str | None) -> None:
        if value is not None:
            raise InputError(f"{name} does not work on a lake: {INSTEAD[name]}")

    option = inspect.Parameter(
        "lake",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, typer.Option("--lake", hidden=True, is_eager=True, callback=refuse)],
    )

    @wraps(command)
    def refusing(*arguments: Any, lake: None, **options: Any) -> None:  # noqa: ARG001 (`refuse` has it)
        command(*arguments, **options)

    signature = inspect.signature(command, eval_str=True)
    refusing.__signature__ = signature.replace(parameters=[*signature.parameters.values(), option])  # type: ignore[attr-defined]
    refusing.__annotations__ = {**get_type_hints(command, include_extras=True), "lake": option.annotation}
    return refusing
