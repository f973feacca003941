"""Options that the fields of a dataclass are: what CONTRIBUTING.md says of adding one is carried out here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pytest
import typer
from typer.testing import CliRunner

from spangrade.evaluator.cli.options import Only, in_words_of_options, option_of, with_groups
from spangrade.tracer.fields import FieldError, option

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


def bake(baking: Baking, where: Annotated[str, typer.Argument()], oven: bool = False) -> None:
    """Bake."""
    GIVEN.update(baking=baking, where=where, oven=oven)


def shape(
    baking: Annotated[Baking, Only("loaves")], salt: Annotated[bool, option_of(Baking, "with_salt")] = False
) -> None:
    """Shape."""
    GIVEN.update(baking=baking, salt=salt)


def ran(command: Any, *arguments: str, **environment: str) -> Any:
    GIVEN.clear()
    app = typer.Typer()
    app.command()(with_groups(command))
    return CliRunner().invoke(app, list(arguments), env=environment)


def test_a_field_with_help_is_an_option() -> None:
    assert ran(bake, "home").exit_code == 0
    assert {"baking": Baking(), "where": "home", "oven": False} == GIVEN
    options = ("--loaves", "3", "--share", "0.5", "--with-salt", "--flours", "rye", "--flours", "oat")
    done = ran(
        bake, "home", *options, "--recipes", "a.md", "--guests", "ann=crust", "--oven", BAKE_UNTIL="noon"
    )
    assert done.exit_code == 0, done.output
    expected = Baking(3, 0.5, True, "noon", ["rye", "oat"], [Path("a.md")], ["ann=crust"])  # type: ignore[arg-type]
    assert {"baking": expected, "where": "home", "oven": True} == GIVEN


def test_the_bounds_and_the_help_are_those_of_the_field() -> None:
    assert "greater than or equal to 1" in ran(bake, "home", "--loaves", "0").output
    assert "How many loaves." in ran(bake, "--help").output
    assert "--stop" in ran(bake, "--help").output


def test_a_command_can_have_some_of_the_fields() -> None:
    assert ran(shape, "--loaves", "2", "--with-salt").exit_code == 0
    assert {"baking": Baking(2), "salt": True} == GIVEN
    assert "No such option: --share" in ran(shape, "--share", "1").output


def test_a_value_that_cannot_be_used_is_named_by_its_option() -> None:
    error = ran(bake, "home", "--stop", "never").exception
    assert isinstance(error, FieldError)
    assert (str(error), error.in_words({"baking.until": "--stop"})) == (
        "baking.until: expected an end",
        "--stop: expected an end",
    )


@pytest.mark.parametrize(
    ("name", "flag"),
    [
        ("gates", "--metric"),
        ("gates.metrics_files", "--metrics-file"),
        ("select.answers", "--answers"),
        ("judge.max_cost_usd", "--judge-max-cost"),
        ("mutants.of_each", "--mutants"),
        ("options.idle_s", "--idle"),
        ("name", "--name"),
        ("fail_if", "--fail-if"),
    ],
)
def test_each_field_has_its_option_in_an_error(name: str, flag: str) -> None:
    assert in_words_of_options(FieldError(name, "expected more")) == f"{flag}: expected more"
