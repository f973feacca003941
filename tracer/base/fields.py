"""Fields of dataclasses that are options of a command, parameters in Python and keys of the settings at once.

The field has the help; `spangrade.evaluator.cli.declare` makes options and arguments of it. A value that
cannot be used is reported in the words of the door through which it came: `--judge-votes`, `judge.votes`, or
the file's key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, replace
from keyword import iskeyword
from typing import Any, NamedTuple, TypeVar

from spangrade.tracer.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Option:
    """How a field is an option of a command: its help, its name if it is not the field's, and its bounds.

    `also` is a second name. An `argument` has no name.
    `variable` is the environment variable that gives its value, `shown_default` the text of its help for
    None. With `setting` it is no option of a command but a key of the settings and a variable alone: of the
    table of that name or, by `OWN`, of the table of the command (`[options.grade]`).
    """

    help: str
    name: str | None = None
    also: str | None = None
    metavar: str | None = None
    least: float | None = None
    most: float | None = None
    shown_default: str | None = None
    variable: str | None = None
    setting: str = ""
    argument: bool = False


REQUIRED = MISSING  # in place of a default
OWN = "options"  # the table of settings of a command


def option(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 (the option's help)
    """Return a field of a dataclass that is an option; `more` is that of `Option`."""
    return field(default=default, metadata={"option": Option(help, **more)})


def argument(default: Any, help: str, **more: Any) -> Any:  # noqa: A002 (the argument's help)
    """Return a field of a dataclass that is an argument; `more` is that of `Option`."""
    return option(default, help, argument=True, **more)


class OptionField(NamedTuple):
    """A field that is an option of a command."""

    field: Field[Any]
    option: Option

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        if self.option.argument:
            return self.option.metavar or self.field.name.upper()
        return self.option.name or f"--{self.field.name.rstrip('_').replace('_', '-')}"

    @property
    def parameter(self) -> str:
        """The option as a name of Python, such as `judge_votes`."""
        name = self.field.name if self.option.argument else self.flag[2:].replace("-", "_")
        return f"{name}_" if iskeyword(name) else name


def option_fields(group: type) -> Iterator[OptionField]:
    """Yield the fields of a dataclass that are options of a command."""
    for one in fields(group):
        if described := one.metadata.get("option"):
            yield OptionField(one, described)


def values_of(group: Any, *names: str) -> dict[str, Any]:
    """Return the values of a dataclass's options by field; if `names` are given, of these fields alone."""
    found = {one.field.name: getattr(group, one.field.name) for one in option_fields(type(group))}
    return {name: value for name, value in found.items() if not names or name in names}


_Group = TypeVar("_Group")


def filled(group: _Group, others: _Group) -> _Group:
    """Return a dataclass with the fields of another of its kind where its own are None."""
    missing = {
        one.field.name: getattr(others, one.field.name)
        for one in option_fields(type(group))
        if getattr(group, one.field.name) is None
    }
    return replace(group, **missing)  # type: ignore[type-var]


def check_bounds(group: Any, name: str) -> None:
    """Raise FieldError, of a field of `name`, for an option of a dataclass that is not within its bounds."""
    for one in option_fields(type(group)):
        value, least, most = getattr(group, one.field.name), one.option.least, one.option.most
        if value is None or least is None or (value >= least and (most is None or value <= most)):
            continue
        expected = f"{least:g} or more" if most is None else f"{least:g} to {most:g}"
        raise FieldError(f"{name}.{one.field.name}", f"expected {expected}, found {value}")


class FieldError(InputError):
    """A value that cannot be used, of a field or a parameter: `judge.votes: expected an odd number, found 2`.

    `given` is the value or the part of it, if the name alone does not say which it is. The command line
    replaces the name of the field by that of the option.
    """

    def __init__(self, name: str, problem: str, given: str = "") -> None:
        self.name = name
        self.problem = problem
        self.given = given
        super().__init__(self.in_words({}))

    def in_words(self, names: Mapping[str, str]) -> str:
        """Return the message with another name of the field, such as that of its option."""
        name = names.get(self.name, self.name)
        return f"{name} {self.given}: {self.problem}" if self.given else f"{name}: {self.problem}"

    def __reduce__(self) -> tuple[type[FieldError], tuple[str, str, str]]:
        """Return the constructor and its arguments, which make the same error in another process."""
        return FieldError, (self.name, self.problem, self.given)
