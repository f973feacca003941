"""`spangrade audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import typer

from spangrade import Gates, JudgeOptions, Selection
from spangrade.evaluator.apps.audit.options import Mutants
from spangrade.evaluator.cli.options import Graders, Printed, StoredIn
from spangrade.evaluator.cli.output import print_lines, print_table, show
from spangrade.evaluator.cli.settings import loaded_settings
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.base.fields import argument, option, values_of
from spangrade.tracer.base.terminal import counted, warn

_RULES = ("rule", "draft", "asks", "sessions", "break_it", "false_alarms", "for_example")


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What is audited, and where what is found is written."""

    dataset: Path | None = argument(
        None, "Golden JSON, a folder of it and its spans, or what `grade` takes; none with --mine."
    )
    mine: bool = option(
        False, "Propose rules on calls that good sessions keep to, with how often a good one breaks each."
    )
    spans: tuple[Path, ...] = option(
        (), "Recorded spans to import and audit; without, all stored sessions are audited."
    )
    least: int = option(20, "With --mine: sessions that a rule concerns, at least.", least=1, metavar="N")
    write: bool = option(
        False, "Write what is proposed into the golden file; with --mine, into the settings as drafts."
    )
    out: Path | None = option(None, "A folder for audit.json, audit.md and golden.diff.")
    all: bool = option(False, "List all survivors and questions.")


def audit(
    context: typer.Context,
    gates: Gates,
    select: Selection,
    judge: JudgeOptions,
    mutants: Mutants,
    audited: AuditOptions,
    at: StoredIn,
    by: Graders,
    printed: Printed,
) -> None:
    """Break sessions that pass, and see which defects the golden dataset and its gates notice.

    No agent is run, and nothing is saved. A judge is asked only if --judge-model names it. With --mine it
    proposes rules instead, and says how the rules of the settings fare, drafts too. Exit codes: 0 audited,
    2 bad input, 4 no session could be audited.
    """
    if audited.mine:
        if audited.dataset is not None:
            raise InputError(f"{audited.dataset}: --mine learns of stored sessions: expected no dataset")
        _mine(context, select, audited, at, printed)
        return
    if audited.dataset is None:
        raise InputError("expected DATASET, or --mine")
    with at.opened(by.workers) as opened:
        asked = values_of(audited, "dataset", "spans", "write", "out")
        found = opened.audit(**asked, gates=gates, select=select, judge=judge, mutants=mutants)
    from spangrade.evaluator.apps.audit.printed import audit_json, audit_tables

    if printed.as_table:
        show(audit_tables(found, every=audited.all))
        print_lines(found.diff)
    else:
        printed.write(audit_json(found), "survivors")
    raise typer.Exit(found.exit_code)


def _mine(
    context: typer.Context, select: Selection, audited: AuditOptions, at: StoredIn, printed: Printed
) -> None:
    """Print rules that good sessions keep to, and how those of the settings fare; write the new ones."""
    from spangrade.evaluator.reports.rules import rule_rows

    with at.opened() as opened:
        found = opened.mine_rules(select=select, least=audited.least)
        known = opened.check_rules(select=select)
    if not printed.as_table:
        printed.write({"proposed": rule_rows(found), "settings": rule_rows(known)}, "proposed")
    elif found:
        print_table(rule_rows(found), _RULES)
    else:
        warn("no rule: too few sessions keep to one (--least)")
    if printed.as_table and known:
        print_table(rule_rows(known), _RULES)
    if audited.write and found:
        from spangrade.evaluator.review.mining.call_rules import add_rules

        loaded = loaded_settings(context)
        file = loaded.file or Path("spangrade.toml")
        added = add_rules(file, loaded.settings.rules, [one.rule for one in found])
        warn(f"{counted(len(added), 'draft')} added to {file}; without `draft = true` a rule is a gate")
