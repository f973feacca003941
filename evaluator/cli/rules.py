"""`spangrade rules`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from spangrade import Selection
from spangrade.evaluator.cli.options import Db, Format, LakeCatalog, Only, OutputFormat, with_groups
from spangrade.evaluator.cli.output import database_or_lake, print_json, print_table
from spangrade.evaluator.cli.settings import loaded_settings, with_config
from spangrade.tracer.errors import ExitCode
from spangrade.tracer.terminal import counted, warn

_COLUMNS = ("rule", "asks", "sessions", "break_it", "false_alarms", "for_example")

app = typer.Typer(
    help="Learn rules on calls from good sessions, and hold sessions against them.",
    no_args_is_help=True,
    add_completion=False,  # that of `spangrade` is enough
    pretty_exceptions_enable=False,
)


def mine(
    context: typer.Context,
    select: Annotated[Selection, Only("since", "where", "agent", "version")],
    least: Annotated[
        int, typer.Option(min=1, metavar="N", help="Sessions that a rule concerns, at least.")
    ] = 20,
    write: Annotated[
        bool,
        typer.Option("--write", help="Add them to the settings, as drafts: nothing is graded by them yet."),
    ] = False,
    db: Db = None,
    lake: LakeCatalog = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Propose rules that the calls of good sessions keep to, with how often a good session breaks them.

    Good are sessions that passed, and those of production that did not fail.
    """
    with database_or_lake(db, lake) as opened:
        found = opened.mine_rules(select=select, least=least)
    from spangrade.evaluator.reports.rules import rule_rows

    if format is Format.JSON:
        print_json(rule_rows(found))
    elif found:
        print_table(rule_rows(found), _COLUMNS)
    else:
        warn("no rule: too few sessions keep to one (--least)")
    if write and found:
        from spangrade.evaluator.review.mining.write_rules import add_rules

        loaded = loaded_settings(context)
        file = loaded.file or Path("spangrade.toml")
        added = add_rules(file, loaded.settings.rules, [one.rule for one in found])
        warn(f"{counted(len(added), 'draft')} added to {file}; without `draft = true` a rule is a gate")


def check(
    select: Annotated[Selection, Only("since", "where", "agent", "version")],
    db: Db = None,
    lake: LakeCatalog = None,
    format: OutputFormat = Format.TABLE,  # noqa: A002 (the option's name)
) -> None:
    """Count the sessions that the rules of the settings, drafts too, concern, and those that break them.

    Exit code 1 if a session breaks a rule that is not a draft.
    """
    with database_or_lake(db, lake) as opened:
        found = opened.check_rules(select=select)
    from spangrade.evaluator.reports.rules import rule_rows

    if format is Format.JSON:
        print_json(rule_rows(found))
    elif found:
        print_table(rule_rows(found), ("rule", "draft", *_COLUMNS[1:4], "for_example"))
    else:
        warn("the settings have no rules: spangrade rules mine --write")
    if any(one.rule.violators and not one.rule.draft for one in found):
        raise typer.Exit(ExitCode.FAILED)


app.command()(with_config(with_groups(mine)))
app.command()(with_config(with_groups(check)))
