"""`spangrade rules`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from spangrade.evaluator.cli.declare import commands_under
from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import print_table
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.errors import ExitCode
from spangrade.tracer.base.fields import option
from spangrade.tracer.base.terminal import counted, warn

_COLUMNS = ("rule", "asks", "sessions", "break_it", "false_alarms", "for_example")


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions:
    """Which rules are proposed, and whether they are written."""

    least: int = option(20, "Sessions that a rule concerns, at least.", least=1, metavar="N")
    write: bool = option(False, "Add them to the settings, as drafts: nothing is graded by them yet.")


def mine(
    context: typer.Context, select: Selected, mined: MineOptions, at: StoredIn, printed: Printed
) -> None:
    """Propose rules that the calls of good sessions keep to, with how often a good session breaks them.

    Good are sessions that passed, and those of production that did not fail.
    """
    with at.opened() as opened:
        found = opened.mine_rules(select=select, least=mined.least)
    from spangrade.evaluator.reports.rules import rule_rows

    if not printed.as_table:
        printed.write(rule_rows(found))
    elif found:
        print_table(rule_rows(found), _COLUMNS)
    else:
        warn("no rule: too few sessions keep to one (--least)")
    if mined.write and found:
        from spangrade.evaluator.review.mining.write_rules import add_rules

        loaded = loaded_settings(context)
        file = loaded.file or Path("spangrade.toml")
        added = add_rules(file, loaded.settings.rules, [one.rule for one in found])
        warn(f"{counted(len(added), 'draft')} added to {file}; without `draft = true` a rule is a gate")


def check(select: Selected, at: StoredIn, printed: Printed) -> None:
    """Count the sessions that the rules of the settings, drafts too, concern, and those that break them.

    Exit code 1 if a session breaks a rule that is not a draft.
    """
    with at.opened() as opened:
        found = opened.check_rules(select=select)
    from spangrade.evaluator.reports.rules import rule_rows

    if not printed.as_table:
        printed.write(rule_rows(found))
    elif found:
        print_table(rule_rows(found), ("rule", "draft", *_COLUMNS[1:4], "for_example"))
    else:
        warn("the settings have no rules: spangrade rules mine --write")
    if any(one.rule.violators and not one.rule.draft for one in found):
        raise typer.Exit(ExitCode.FAILED)


app = commands_under(
    "Learn rules on calls from good sessions, and hold sessions against them.",
    mine,
    check,
    no_args_is_help=True,
)
