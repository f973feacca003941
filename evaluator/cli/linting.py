"""`spangrade lint`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from spangrade.evaluator.cli.opening import up_to_date
from spangrade.evaluator.cli.output import print_json, print_table
from spangrade.evaluator.cli.showing import found
from spangrade.evaluator.maintenance.lint import Finding, lint
from spangrade.tracer.errors import ExitCode


def run(session: str | None, db: Path, *, as_json: bool) -> None:
    """Print what is found: for people one row for all sessions that it was found in."""
    with up_to_date(db) as store:
        findings = list(lint(store, None if session is None else found(store, session)))
    if as_json:
        print_json(findings)
    elif findings:
        columns = ("code", "sessions", "count", "what", "inconclusive", "mend")
        print_table(_together(findings), columns)
    else:
        print("nothing is lacking")
    mendable = any(finding.metrics and finding.mend for finding in findings)
    raise SystemExit(ExitCode.INCONCLUSIVE if mendable else ExitCode.PASSED)


def _together(findings: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    """Yield a row for findings that are the same but for the session and the count."""
    counts: dict[tuple[Any, ...], list[int]] = {}
    for one in findings:
        counts.setdefault((one.code, one.what, one.metrics, one.mend), []).append(one.count)
    for (code, what, metrics, mend), found_in in counts.items():
        yield {
            "code": code,
            "sessions": len(found_in),
            "count": sum(found_in),
            "what": what,
            "inconclusive": ", ".join(metrics) or None,
            "mend": mend,
        }
