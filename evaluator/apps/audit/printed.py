"""An audit as JSON values, as tables for people, as Markdown, and as files."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from shlex import quote
from typing import Any

from rich.console import Group as Parts
from rich.console import RenderableType

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.converters.datasets.golden_edits import text_of
from spangrade.evaluator.apps.audit.audit import NOT_WRONG, Fate
from spangrade.evaluator.apps.audit.proposals import Proposal
from spangrade.evaluator.apps.audit.report import Audit, Tally
from spangrade.evaluator.apps.audit.survivors import SurvivorGroup
from spangrade.evaluator.reports.markdown import code, table_lines
from spangrade.evaluator.reports.tables import cell, table
from spangrade.tracer.base.canonical_json import dumps, record_json
from spangrade.tracer.base.terminal import counted

MAX_LISTED = 20  # groups of survivors, and questions; the JSON has all of them

_FATES = tuple(map(str, (Fate.CAUGHT, Fate.SURVIVED, Fate.UNDECIDED, Fate.RIGHT, Fate.HARMLESS)))
_GROUP = ("kind", "changed", "survived", "questions", "why", "example")


def audit_json(audit: Audit) -> dict[str, Any]:
    """Return an audit as JSON values; a share is null if there is no mutant that is wrong."""
    return {
        "dataset": audit.dataset,
        "seed": audit.seed,
        "mutants_per_session": audit.number,
        "sessions": audit.sessions,
        "left_out": dict(audit.left_out),
        "mutants": _tally_json(audit.total),
        "after_proposals": _tally_json(audit.after),
        "kinds": [{"kind": tally.name, **_tally_json(tally)} for tally in audit.kinds],
        "questions": [{"question": tally.name, **_tally_json(tally)} for tally in audit.questions],
        "survivors": record_json(audit.survivors),
        "left_after_proposals": record_json(audit.left),
        "proposals": [_proposal_json(proposal) for proposal in audit.proposed.edits],
        "not_written": [_proposal_json(proposal) for proposal in audit.proposed.unsure],
        "gates": record_json(audit.proposed.gates),
        "not_proposed": [
            {"questions": list(one.question_ids), "reference": one.reference, "reason": one.reason}
            for one in audit.proposed.withheld
        ],
        "drills": record_json(audit.drills),
        "diff": audit.diff,
        "written": audit.written,
        "judge": None if audit.judge is None else {"model": audit.judge.model, **asdict(audit.judge.spent)},
        "exit_code": int(audit.exit_code),
    }


def audit_tables(audit: Audit, *, every: bool) -> RenderableType:
    """Return an audit as tables; unless `every`, only the first groups and questions are listed."""
    limit = None if every else MAX_LISTED
    parts: list[RenderableType] = []
    for name, tallies in (("kind", audit.kinds), ("question", audit.questions)):
        if tallies:
            parts.append(table(_tally_rows(name, tallies[:limit]), (name, *_FATES, "share caught")))
    if audit.survivors:
        title = "Survivors: no gate failed them"
        parts.append(table(_group_rows(audit.survivors[:limit]), _GROUP, title))
    if not every:
        parts += [cell(line) for line in _more(audit)]
    return Parts(*parts, *(cell(line) for line in _lines(audit)))


def audit_markdown(audit: Audit) -> str:
    """Return an audit for a comment on a pull request; recorded text is in code spans."""
    lines = [f"## spangrade audit: {code(audit.dataset)}", ""]
    for name, tallies in (("kind", audit.kinds), ("question", audit.questions)):
        columns = (name, *_FATES, "share caught")
        lines += [*_markdown(columns, _tally_rows(name, tallies[:MAX_LISTED])), ""]
    if audit.survivors:
        rows = _group_rows(audit.survivors[:MAX_LISTED])
        lines += ["### Survivors", "", *_markdown(_GROUP, rows), ""]
    lines += [f"- {code(line, 400)}" for line in (*_more(audit), *_lines(audit))]
    if audit.diff:
        fence = "`" * max(3, 1 + max(map(len, re.findall("`*", audit.diff))))
        lines += ["", f"{fence}diff", audit.diff.rstrip("\n"), fence]
    return "\n".join([*lines, ""])


def write_audit(audit: Audit, folder: Path) -> None:
    """Write audit.json, audit.md and golden.diff to a folder. Raises InputError if one cannot be written."""
    with replacing(folder) as new, writing(folder):
        create_text(new / "audit.json", dumps(audit_json(audit), indent=True))
        create_text(new / "audit.md", audit_markdown(audit))
        if audit.diff:
            create_text(new / "golden.diff", audit.diff)


def _proposal_json(proposal: Proposal) -> dict[str, Any]:
    return {
        "questions": list(proposal.question_ids),
        "path": list(proposal.edit.path),
        "value": proposal.edit.value,
        "insert": proposal.edit.insert,
        "catches": proposal.catches,
        "sessions": proposal.sessions,
    }


def _tally_json(tally: Tally) -> dict[str, Any]:
    return {fate: tally.fates[Fate(fate)] for fate in _FATES} | {"share_caught": tally.share}


def _tally_rows(name: str, tallies: Iterable[Tally]) -> list[dict[str, Any]]:
    return [
        {name: tally.name, **{fate: tally.fates[Fate(fate)] for fate in _FATES}}
        | {"share caught": percent(tally.share)}
        for tally in tallies
    ]


def _group_rows(groups: Iterable[SurvivorGroup]) -> list[dict[str, Any]]:
    return [
        {
            "kind": group.kind,
            "changed": group.target,
            "survived": f"{group.survived} of {group.tried}",
            "questions": _names(group.questions),
            "why": group.why,
            "example": group.example,
        }
        for group in groups
    ]


def _names(names: Sequence[str]) -> str:
    rest = len(names) - 3
    return ", ".join(names[:3]) + (f" and {rest} more" if rest > 0 else "")


def _markdown(columns: Sequence[str], rows: Iterable[dict[str, Any]]) -> Iterator[str]:
    return table_lines(columns, ([code(str(row[column]), 200) for column in columns] for row in rows))


def percent(share: float | None) -> str:
    """Return a share as `72.5%`."""
    return "–" if share is None else f"{share:.1%}"


def _more(audit: Audit) -> Iterator[str]:
    for noun, number in (("group", len(audit.survivors)), ("question", len(audit.questions))):
        if number > MAX_LISTED:
            yield f"and {counted(number - MAX_LISTED, noun)} more: --all, audit.json"


def _lines(audit: Audit) -> Iterator[str]:
    """Yield the totals, the proposals, and the mutants that survive them, in one line each."""
    for why, number in audit.left_out.items():
        yield f"{counted(number, 'session')} not audited: {why}"
    if not audit.tried:
        yield "no session to break: nothing is known of the gates; --failed audits sessions that do not pass"
        return
    for proposal in audit.proposed.edits:
        yield _proposal_line(proposal)
    for proposal in audit.proposed.unsure:
        yield f"{_proposal_line(proposal)}; not written, of {counted(proposal.sessions, 'session')}"
    if audit.proposed.unsure:
        yield f"after a look: spangrade audit {quote(audit.dataset)} --write --from 1 writes them, too"
    for one in audit.proposed.withheld:
        yield f"{', '.join(one.question_ids)}: {one.reference}: not proposed: {one.reason}"
    for gate in audit.proposed.gates:
        yield f"--metric '{gate.metric}' would catch {counted(gate.catches, 'survivor')} more"
    for drill in audit.drills:
        yield f"no scenario drills {drill.tool}: {', '.join(drill.kinds)}"
    if audit.judge is not None:
        yield f"judge {audit.judge.model}: {audit.judge.spent}"
    fates = audit.total.fates
    wrong = fates.total() - sum(fates[fate] for fate in NOT_WRONG)
    text = f"{counted(audit.sessions, 'session')}, {counted(fates.total(), 'mutant')}: "
    text += f"{fates[Fate.CAUGHT]} of {wrong} caught ({percent(audit.total.share)})"
    if audit.proposed.edits:
        verb = "with what was written" if audit.written else "with what is proposed"
        text += f", {percent(audit.after.share)} {verb}"
    if undecided := fates[Fate.UNDECIDED]:
        text += f"; {undecided} undecided"
    if right := fates[Fate.RIGHT]:
        text += f"; {right} right by the reference's own rules"
    if harmless := fates[Fate.HARMLESS]:
        text += f"; {harmless} harmless (read-only)"
    yield text


def _proposal_line(proposal: Proposal) -> str:
    (text,) = text_of([proposal.edit])
    short = text if len(text) <= 200 else f"{text[:200]}…"
    return f"{', '.join(proposal.question_ids)}: {short} would catch {counted(proposal.catches, 'survivor')}"
