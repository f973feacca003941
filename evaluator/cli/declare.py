"""Commands out of declarations: a parameter of a command is a group of options, a dataclass with such fields.

A field (`tracer/base/fields.py`) has the name, type, default, help and variable of an option; this module
makes the option of it, and of the options the groups that the command gets. `Only` names the fields that a
command has where it has not all of them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, is_dataclass
from enum import Enum
from functools import partial, wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, NamedTuple, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spangrade.evaluator.cli.commands import NOT_ON_A_LAKE
from spangrade.evaluator.cli.settings import CONFIG, key_of, own_setting, remember_settings
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import OWN, FieldError, OptionField, option_fields

# Where a field takes a value of Python too, the command line has a text.
_TEXTS = {"Metric": str, "Rule": str, "datetime": str, "StrPath": Path}
# What a mistake in a group as a whole is named after, and in a parameter that has no option.
_WHOLE = {"gates": "--metric", "select": "--where", "select.origin": "--where origin", "agent": "AGENT"}


# Help and errors as plain text: boxes take half of the screen.
PLAIN: dict[str, Any] = {
    "add_completion": False,
    "pretty_exceptions_enable": False,
    "rich_markup_mode": None,
}


class Only(tuple[str, ...]):
    """The fields of a group that are options of a command, where not all are."""

    def __new__(cls, *names: str) -> Only:
        """Return the fields of these names."""
        return super().__new__(cls, names)


class _Group(NamedTuple):
    """A group of options, and which of its fields a command has."""

    type: type
    only: Only | None

    def fields(self) -> Iterator[OptionField]:
        """Yield the fields that are options of the command, or keys of its settings."""
        chosen = self.only
        yield from (one for one in option_fields(self.type) if chosen is None or one.field.name in chosen)

    def options(self) -> Iterator[OptionField]:
        """Yield the fields that are options of the command."""
        yield from (one for one in self.fields() if not one.option.setting)

    def value(self, options: Mapping[str, Any], setting: Callable[[OptionField, Any], Any]) -> Any:
        """Return the group with what is given; the rest has its own defaults.

        `setting` returns the value of a key of the command's settings, by its field and type.
        """
        given = [(one, options[one.parameter]) for one in self.options()]
        if own := [one for one in self.fields() if one.option.setting == OWN]:
            kinds = get_type_hints(self.type, localns=_TEXTS)
            given += [(one, setting(one, _kind(kinds[one.field.name]))) for one in own]
        return self.type(**{one.field.name: value for one, value in given if value != _default(one)})


def command_of(command: Callable[..., None], name: str) -> Any:
    """Return the command of a function."""
    alone = typer.Typer(**PLAIN)
    alone.command(name)(declared(command, name))
    return get_command(alone)


def commands_under(words: str, text: str, *own: Callable[..., None], **more: Any) -> typer.Typer:
    """Return the commands under some words, each called as its function."""
    under = typer.Typer(help=text, **PLAIN, **more)
    for command in own:
        name = command.__name__.rstrip("_").replace("_", "-")
        under.command(name)(declared(command, words if name == words else f"{words} {name}"))
    return under


def declared(command: Callable[..., None], name: str = "") -> Callable[..., None]:
    """Return a function with an option for each field of the groups of a command, as typer reads functions.

    It has `--config` too and, if the command of this name is not for a lake, refuses the address of one. Its
    own settings are those of the table of this name. A value that cannot be used is named by its option.
    """
    hints = get_type_hints(command, include_extras=True)
    groups = {parameter: group for parameter, hint in hints.items() if (group := _group(hint)) is not None}
    own = {name: one for name, one in inspect.signature(command).parameters.items() if name not in groups}
    parameters = [_parameter(name, hints[name], one.default) for name, one in own.items()]
    for group in groups.values():
        parameters += _parameters(group)
    parameters.append(_parameter("config", CONFIG, None))
    context = next((one for one in own if hints[one] is typer.Context), "invoked")
    if context not in own:
        parameters.append(_parameter(context, typer.Context, inspect.Parameter.empty))
    remember_settings(name, [one for group in groups.values() for one in group.fields()])

    @wraps(command)
    def called(**options: Any) -> None:
        setting = partial(own_setting, options[context], name)
        if name in NOT_ON_A_LAKE and is_lake(options.get("db")):
            raise InputError(f"{name} does not work on a lake: {NOT_ON_A_LAKE[name]}")
        try:
            values = {parameter: group.value(options, setting) for parameter, group in groups.items()}
            command(**values, **{parameter: options[parameter] for parameter in own})
        except FieldError as error:
            raise InputError(_in_words(error, groups, name)) from error

    called.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters}
    return called


def with_example(command: Any, example: str) -> None:
    """Let the help of a command begin with an example."""
    command.help = f"$ {example}\n\n{command.help}"


class WithDefault(TyperGroup):
    """A command that has others under it: anything else than one of these is for itself, the first."""

    @property
    def default(self) -> str:
        """The name of its own command."""
        return next(iter(self.commands))

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names, else the own one with all arguments."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "", self.commands[self.default], args

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Leave options to the own command."""
        own = not args or args[0] not in self.commands
        return super().parse_args(ctx, ["--", *args] if own and args else args or [self.default])


def _in_words(error: FieldError, groups: Mapping[str, _Group], table: str) -> str:
    """Return what is wrong with a value in the words of the command: `--judge-model: expected …`."""
    names: dict[str, str] = {}
    for parameter, group in groups.items():
        for one in option_fields(group.type):
            name = key_of(table, one) if one.option.setting else one.flag
            names[f"{parameter}.{one.field.name}"] = name
            names.setdefault(one.field.name, name)
    names |= _WHOLE
    if "[" not in error.name:  # else it is a place in the settings, such as alerts[0].when
        names.setdefault(error.name, f"--{error.name.rpartition('.')[2].replace('_', '-')}")
    return error.in_words(names)


def _group(hint: Any) -> _Group | None:
    """Return the group of options that an annotation is."""
    only = next((one for one in get_args(hint)[1:] if isinstance(one, Only)), None)
    kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return _Group(kind, only) if is_dataclass(kind) and isinstance(kind, type) else None


def _parameters(group: _Group) -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(group.type, localns=_TEXTS)
    for one in group.options():
        kind: Any = _kind(kinds[one.field.name])
        annotation = Annotated[kind, _info(one, kind)]
        yield _parameter(one.parameter, annotation, _default(one))


def _parameter(name: str, annotation: Any, default: Any) -> inspect.Parameter:
    default = inspect.Parameter.empty if default is MISSING else default
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def is_lake(address: object) -> bool:
    """Return whether an address of a database is that of a lake's catalog."""
    return str(address or "").startswith("postgres:")


def _is_flag(kind: Any) -> bool:
    return bool in _alternatives(kind)


def _is_plain(kind: Any) -> bool:
    """Return whether the type of a value says no more than the name of its option."""
    return not _is_flag(kind) and not any(
        isinstance(one, type) and issubclass(one, Enum) for one in _alternatives(kind)
    )


def _default(one: OptionField) -> Any:
    """Return the default of an option: a flag is false, and of a list nothing is shown."""
    default = one.field.default
    if default == ():
        return None
    return False if default is None and "bool" in str(one.field.type) else default


def _kind(hint: Any) -> Any:
    """Return the type of an option for that of a field: a list for several, a text where one will do."""
    kinds = [one for one in _alternatives(hint) if one is not type(None)]
    several = [one for one in kinds if get_origin(one) in (Iterable, Mapping) or _is_iterable(one)]
    if several:
        item = Path if Path in (*kinds, *get_args(several[0])) else str
        return list[item] | None  # type: ignore[valid-type]
    if bool in kinds:
        return bool
    return str | None if str in kinds else kinds[0] | None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_iterable(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _info(one: OptionField, kind: Any) -> Any:
    described = one.option
    texts: dict[str, Any] = {
        "help": described.help,
        "metavar": described.metavar or ("" if _is_plain(kind) else None),
        "min": described.least,
        "max": described.most,
        "envvar": described.variable,
        "show_default": described.shown_default or (not described.argument and not _is_flag(kind)),
    }
    if described.argument:
        return typer.Argument(**{**texts, "metavar": one.flag})
    return typer.Option(one.flag, *([described.also] if described.also else []), **texts)
