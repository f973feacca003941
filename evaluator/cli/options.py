"""Options that several commands share, and those that the fields of dataclasses are.

A command takes a group of options as one value: a parameter whose annotation is a dataclass with option
fields (`tracer/fields.py`) stands for all of them, or for those that `Only` names.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import MISSING, is_dataclass
from enum import StrEnum
from functools import wraps
from pathlib import Path
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer
from typer.core import TyperGroup
from typer.main import get_command

from spangrade import Selection
from spangrade.evaluator.grading.origin import OriginFilter
from spangrade.tracer.errors import InputError
from spangrade.tracer.fields import FieldError, OptionField, option_fields
from spangrade.tracer.terminal import LogFormat, LogLevel


class Format(StrEnum):
    """How results are printed."""

    TABLE = "table"
    JSON = "json"


Db = Annotated[
    Path | None,
    typer.Option(
        "--db",
        envvar="SPANGRADE_DB",
        help="The DuckDB file of the spans.",
        show_default="spangrade.duckdb",
        hidden=True,
    ),
]
LakeCatalog = Annotated[
    str | None,
    typer.Option(
        "--lake",
        metavar="postgres:…",
        help="The catalog of a lake, in place of a database file (docs/scale.md).",
        hidden=True,
    ),
]
OutputFormat = Annotated[
    Format, typer.Option("--format", help="A table, or JSON alone on standard output.", hidden=True)
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that read spans.",
        show_default="the number of CPUs, up to 4; 1 below 20,000 spans",
        hidden=True,
    ),
]
GradeWorkers = Annotated[
    int | None,
    typer.Option(
        "--workers",
        min=1,
        metavar="N",
        help="Processes that grade sessions.",
        show_default="the number of CPUs, up to 4; 1 below 4,000 sessions",
        hidden=True,
    ),
]
MetricsFiles = Annotated[
    list[Path] | None,
    typer.Option(
        "--metrics-file",
        metavar="FILE",
        help="Metrics of your own: definitions.json, a query.sql, module.py.",
    ),
]
AllMetrics = Annotated[bool, typer.Option("--all-metrics", hidden=True)]  # an earlier name of --all
LogFormatOption = Annotated[
    LogFormat, typer.Option("--log-format", help="How log lines are printed.", hidden=True)
]
LogLevelOption = Annotated[
    LogLevel, typer.Option("--log-level", help="The least severe log lines that are printed.", hidden=True)
]
PRODUCTION = OriginFilter.PRODUCTION
_ORIGIN = "Sessions that these made; `any` is all of them."
Origin = Annotated[OriginFilter, typer.Option("--origin", help=_ORIGIN)]
ListedOrigin = Annotated[
    OriginFilter | None,
    typer.Option("--origin", help=_ORIGIN, show_default="production; any as long as there is none"),
]
SessionId = Annotated[str, typer.Argument(help="A session's id, or the beginning of one.")]
AllowLabels = Annotated[
    bool, typer.Option("--allow-labels", help="Let others write labels, scores and golden questions.")
]
Person = Annotated[
    str | None, typer.Option("--as", metavar="NAME", help="With --allow-labels: the person who labels.")
]
GoldenToWrite = Annotated[
    Path | None,
    typer.Option(
        "--golden",
        metavar="FILE",
        help="With --allow-labels: the golden file to which questions are added.",
    ),
]


def person_who_labels(allow_labels: bool, person: str | None, golden: Path | None) -> str | None:
    """Return the person who labels, None if nobody does. Raises InputError if only a part is given."""
    if allow_labels != (person is not None and bool(person.strip())):
        raise InputError("--allow-labels and --as NAME go together: a label has the name of its person")
    if golden is not None and not allow_labels:
        raise InputError("--golden is the file that a reviewer writes: expected --allow-labels, too")
    return None if person is None else person.strip()


class Only(tuple[str, ...]):
    """The fields of a group that are options of a command, where not all are."""

    def __new__(cls, *names: str) -> Only:
        """Return the fields of these names."""
        return super().__new__(cls, names)


# What chooses sessions, where a command lists or measures them: the same words everywhere.
WORDS = Only(
    "where", "since", "until", "sample", "agent", "version", "model", "prompt", "user", "environment"
)
Selected = Annotated[Selection, WORDS]


def option_of(group: type, name: str) -> Any:
    """Return the option that one field of a dataclass is, for an annotation."""
    return next(_option(one) for one in option_fields(group) if one.field.name == name)


def with_groups(command: Callable[..., None]) -> Callable[..., None]:
    """Return a command with the options of its groups, each of which it gets as one value."""
    hints = get_type_hints(command, include_extras=True)
    groups = {name: group for name, hint in hints.items() if (group := _group(hint)) is not None}
    if not groups:
        return command
    parameters: list[inspect.Parameter] = []
    for name, parameter in inspect.signature(command).parameters.items():
        if name in groups:
            parameters += _parameters(name, *groups[name])
        else:
            kind = inspect.Parameter.KEYWORD_ONLY
            parameters.append(parameter.replace(annotation=hints[name], kind=kind))

    @wraps(command)
    def grouped(**options: Any) -> None:
        for name, (group, only) in groups.items():
            options[name] = group(**dict(_given(name, group, only, options)))
        command(**options)

    grouped.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    grouped.__annotations__ = {one.name: one.annotation for one in parameters}
    return grouped


def command_of(function: Callable[..., None], name: str, example: str) -> Any:
    """Return the command of a function, with an example of it."""
    alone = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    alone.command(name)(function)
    return with_example(get_command(alone), example)


def with_example(command: Any, example: str) -> Any:
    """Return a command whose help begins with an example, and says where options that are not listed are."""
    unlisted = sum(getattr(one, "hidden", False) for one in command.params)
    command.help = f"$ {example}\n\n{command.help}"
    if unlisted:
        command.epilog = f"{unlisted} more options, as --db and --format: docs/commands.md"
    return command


class WithDefault(TyperGroup):
    """A command that has names of an earlier version under it: anything else than one of these is for itself.

    Its own command is the one named `default`.
    """

    default = "it"

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names, else the own one with all arguments."""
        if args and args[0] in self.commands:
            return super().resolve_command(ctx, args)
        return "", self.commands[self.default], args

    def parse_args(self, ctx: Any, args: list[str]) -> Any:
        """Leave options to the own command."""
        own = not args or args[0] not in self.commands
        return super().parse_args(ctx, ["--", *args] if own and args else args or [self.default])


def in_words_of_options(error: FieldError) -> str:
    """Return what is wrong with a value in the words of the command line: `--judge-votes: expected …`."""
    from spangrade import Gates, GradeSpec, JudgeOptions, RunOptions, Selection
    from spangrade.evaluator.audit.options import Mutants
    from spangrade.evaluator.watch.options import WatchOptions

    flags = {"gates": "--metric", "select": "--where", "timeout_s": "--timeout", "catalog": "--lake"}
    flags |= {"agent": "AGENT"}
    groups = {
        "": GradeSpec,
        "gates.": Gates,
        "select.": Selection,
        "judge.": JudgeOptions,
        "mutants.": Mutants,
        "options.": WatchOptions,
    }
    flags |= {f"options.{one.field.name}": one.flag for one in option_fields(RunOptions)}
    for prefix, group in groups.items():
        flags |= {f"{prefix}{one.field.name}": one.flag for one in option_fields(group)}
    flags.setdefault(error.name, f"--{error.name.rpartition('.')[2].replace('_', '-')}")
    return error.in_words(flags)


def _group(hint: Any) -> tuple[type, Only | None] | None:
    """Return the dataclass of options that an annotation is, and which of its fields count."""
    only = next((one for one in get_args(hint)[1:] if isinstance(one, Only)), None)
    group = get_args(hint)[0] if get_origin(hint) is Annotated else hint
    return (group, only) if is_dataclass(group) and isinstance(group, type) else None


def _chosen(group: type, only: Only | None) -> Iterator[OptionField]:
    yield from (one for one in option_fields(group) if only is None or one.field.name in only)


def _parameters(name: str, group: type, only: Only | None) -> Iterator[inspect.Parameter]:
    # Where a field takes a value of Python too, the command line has a text.
    kinds = get_type_hints(group, localns={"Metric": str, "Rule": str, "datetime": str, "StrPath": Path})
    for one in _chosen(group, only):
        kind = _kind(kinds[one.field.name])
        yield inspect.Parameter(
            f"{name}_{one.field.name}",
            inspect.Parameter.KEYWORD_ONLY,
            default=_default(one),
            annotation=Annotated[kind, _option(one)],
        )


def _given(name: str, group: type, only: Only | None, options: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield the fields of a group that are on the command line, taken out of its options."""
    for one in _chosen(group, only):
        value = options.pop(f"{name}_{one.field.name}")
        if value != _default(one):
            yield one.field.name, value


def _default(one: OptionField) -> Any:
    """Return the default of an option: a flag is false, and of a list nothing is shown."""
    default = one.field.default
    if default is MISSING or default == ():
        return None
    return False if default is None and "bool" in str(one.field.type) else default


def _kind(hint: Any) -> Any:
    """Return the type of an option for that of a field: a list for several, a text where one will do."""
    kinds = [one for one in _alternatives(hint) if one is not type(None)]
    several = [one for one in kinds if get_origin(one) in (Iterable, Mapping) or _is_iterable(one)]
    if several:
        item = Path if Path in kinds else str
        return list[item] | None  # type: ignore[valid-type]
    if bool in kinds:
        return bool
    return str | None if str in kinds else kinds[0] | None


def _alternatives(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _is_iterable(hint: Any) -> bool:
    origin = get_origin(hint)
    return isinstance(origin, type) and issubclass(origin, Iterable)


def _option(one: OptionField) -> Any:
    described = one.option
    return typer.Option(
        *(one.flag, *([] if described.also is None else [described.also])),
        help=described.help,
        metavar=described.metavar,
        min=described.least,
        max=described.most,
        envvar=described.variable,
        show_default=described.shown_default or True,
        hidden=described.rare,
    )
