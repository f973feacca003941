"""Options that the fields of a dataclass are: what CONTRIBUTING.md says of adding one is carried out here."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_origin, get_type_hints

import pytest
import typer
from typer.testing import CliRunner

from spangrade import Database, InputError
from spangrade.evaluator.cli import compare, delete, label, runs
from spangrade.evaluator.cli.app import COMMANDS, load
from spangrade.evaluator.cli.declare import Only, declared
from spangrade.tracer.base.fields import REQUIRED, FieldError, argument, option, option_fields

GIVEN: dict[str, Any] = {}


@dataclass(frozen=True)
class Baking:
    """How bread is baked."""

    loaves: int = option(1, "How many loaves.", metavar="N", least=1)
    share: float | None = option(None, "The share of rye.", least=0, most=1)
    with_salt: bool = option(False, "Add salt.")
    until: str | None = option(None, "When to stop.", name="--stop", variable="BAKE_UNTIL")
    flours: str | tuple[str, ...] | None = option(None, "A flour; repeat it for more.")
    recipes: Path | tuple[Path, ...] = option((), "A file.", metavar="FILE")
    guests: Mapping[str, str] = option((), "Who eats what.", metavar="WHO=WHAT")
    oven: str = "gas"  # not an option

    def __post_init__(self) -> None:
        if self.until == "never":
            raise FieldError("baking.until", "expected an end")


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where it is baked."""

    where: str = argument(REQUIRED, "The kitchen.")
    at: str | None = option(None, "The time.", also="-t")


def bake(baking: Baking, place: Place, oven: bool = False) -> None:
    """Bake."""
    GIVEN.update(baking=baking, place=place, oven=oven)


def shape(baking: Annotated[Baking, Only("loaves")]) -> None:
    """Shape."""
    GIVEN.update(baking=baking)


def ran(command: Any, *arguments: str, **environment: str) -> Any:
    GIVEN.clear()
    app = typer.Typer()
    app.command()(declared(command))
    return CliRunner().invoke(app, list(arguments), env=environment)


def test_a_field_with_help_is_an_option() -> None:
    assert ran(bake, "home").exit_code == 0
    assert {"baking": Baking(), "place": Place(where="home"), "oven": False} == GIVEN
    options = (
        "-t",
        "6",
        "--loaves",
        "3",
        "--share",
        "0.5",
        "--with-salt",
        "--flours",
        "rye",
        "--flours",
        "oat",
    )
    done = ran(
        bake,
        "home",
        *options,
        "--recipes",
        "a.md",
        "--guests",
        "ann=crust",
        "--oven",
        "-t",
        "6",
        BAKE_UNTIL="noon",
    )
    assert done.exit_code == 0, done.output
    expected = Baking(3, 0.5, True, "noon", ["rye", "oat"], [Path("a.md")], ["ann=crust"])  # type: ignore[arg-type]
    assert {"baking": expected, "place": Place(where="home", at="6"), "oven": True} == GIVEN


def test_the_bounds_and_the_help_are_those_of_the_field() -> None:
    assert "greater than or equal to 1" in ran(bake, "home", "--loaves", "0").output
    assert "How many loaves." in ran(bake, "--help").output
    assert "--stop" in ran(bake, "--help").output


def test_a_command_can_have_some_of_the_fields() -> None:
    assert ran(shape, "--loaves", "2").exit_code == 0
    assert {"baking": Baking(2)} == GIVEN
    assert "No such option: --share" in ran(shape, "--share", "1").output


def test_a_value_that_cannot_be_used_is_named_by_its_option() -> None:
    error = ran(bake, "home", "--stop", "never").exception
    assert (type(error), str(error)) == (InputError, "--stop: expected an end")
    assert str(FieldError("baking.until", "expected an end")) == "baking.until: expected an end"


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("baking", "--baking"),
        ("baking.until", "--stop"),
        ("place.where", "WHERE"),
        ("at", "--at"),
        ("gates", "--metric"),
        ("somewhere.of_all", "--of-all"),
    ],
)
def test_each_field_has_its_option_in_an_error(name: str, flag: str) -> None:
    def mistaken(baking: Baking, place: Place) -> None:
        raise FieldError(name, "expected more")

    assert str(ran(mistaken, "home").exception) == f"{flag}: expected more"


def test_every_option_of_a_command_is_a_field() -> None:
    for name in COMMANDS:
        loaded = load(name)
        commands = (
            [one.callback for one in loaded.registered_commands]
            if isinstance(loaded, typer.Typer)
            else [loaded]
        )
        for command in commands:
            wrapped = getattr(command, "__wrapped__", command)
            if wrapped.__module__.startswith("spangrade.converters"):
                continue  # scripts of their own, with the options of the users' workflows
            hints = get_type_hints(wrapped, include_extras=True)
            del hints["return"]
            for parameter, hint in hints.items():
                kind = get_args(hint)[0] if get_origin(hint) is Annotated else hint
                assert kind is typer.Context or list(option_fields(kind)), (name, parameter)


@pytest.mark.parametrize(
    ("group", "method"),
    [
        (compare.CompareOptions, Database.compare),
        (delete.DeleteOptions, Database.delete),
        (runs.RunsOptions, Database.list_runs),
        (label.ScoreNote, Database.score),
    ],
)
def test_an_option_is_the_parameter_in_python(group: type, method: Any) -> None:
    parameters = inspect.signature(method).parameters
    for one in option_fields(group):
        found = parameters[one.field.name]
        assert found.default == (
            inspect.Parameter.empty if one.field.default is REQUIRED else one.field.default
        )


def test_the_name_of_an_option_or_argument_is_its_own_or_its_fields() -> None:
    @dataclass(frozen=True)
    class Some:
        files: str = argument("", "Files.")
        golden: str = argument("", "Questions.", metavar="FILE")
        max_cost: str = option("", "Cost.")
        import_: str = option("", "Import.")
        where: str = option("", "Where.", name="--of")

    assert [(one.flag, one.parameter) for one in option_fields(Some)] == [
        ("FILES", "files"),
        ("FILE", "golden"),
        ("--max-cost", "max_cost"),
        ("--import", "import_"),
        ("--of", "of"),
    ]
