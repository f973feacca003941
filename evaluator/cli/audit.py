"""`spangrade audit`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from spangrade import Gates, JudgeOptions, Selection
from spangrade.evaluator.audit.options import Mutants
from spangrade.evaluator.cli.declare import RARE
from spangrade.evaluator.cli.options import Graders, Printed, StoredIn
from spangrade.evaluator.cli.output import print_lines, show
from spangrade.tracer.base.fields import REQUIRED, argument, option, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditOptions:
    """What is audited, and where what is found is written."""

    dataset: Path = argument(REQUIRED, "Golden JSON, a folder of it and its spans, or what `grade` takes.")
    spans: tuple[Path, ...] = option(
        (), "Recorded spans to import and audit; without, all stored sessions are audited."
    )
    write: bool = option(False, "Write what is proposed into the golden file.")
    out: Path | None = option(None, "A folder for audit.json, audit.md and golden.diff.")
    all: bool = option(False, "List all survivors and questions.")


def audit(
    gates: Gates,
    select: Annotated[Selection, RARE],
    judge: JudgeOptions,
    mutants: Mutants,
    audited: AuditOptions,
    at: StoredIn,
    by: Graders,
    printed: Printed,
) -> None:
    """Break sessions that pass, and see which defects the golden dataset and its gates notice.

    No agent is run, and nothing is saved. A judge is asked only if --judge-model names it. Exit codes: 0
    audited, 2 bad input, 4 no session could be audited.
    """
    with at.opened(by.workers) as opened:
        asked = values_of(audited, "dataset", "spans", "write", "out")
        found = opened.audit(**asked, gates=gates, select=select, judge=judge, mutants=mutants)
    from spangrade.evaluator.audit.printed import audit_json, audit_tables

    if printed.as_table:
        show(audit_tables(found, every=audited.all))
        print_lines(found.diff)
    else:
        printed.write(audit_json(found), "survivors")
    raise typer.Exit(found.exit_code)
