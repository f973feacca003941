"""What recordings lack, for people: findings that differ only in the session and the count as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from textwrap import wrap
from typing import TYPE_CHECKING, Any

from spangrade.tracer.base.terminal import counted, printable

if TYPE_CHECKING:
    from spangrade.evaluator.maintenance.lint import Finding


WIDTH = 80  # columns


def by_kind(findings: Iterable[Finding]) -> Iterator[dict[str, Any]]:
    """Yield a row for findings that differ only in the session and the count."""
    counts: dict[tuple[Any, ...], list[int]] = {}
    examples: dict[tuple[Any, ...], str | None] = {}
    for one in findings:
        kind = (one.code, one.what, one.metrics, one.advice)
        counts.setdefault(kind, []).append(one.count)
        examples.setdefault(kind, one.example)
    for (code, what, metrics, advice), by_session in counts.items():
        example = examples[code, what, metrics, advice]
        yield {
            "code": code,
            "sessions": len(by_session),
            "count": sum(by_session),
            "what": what if example is None else f"{what} (such as {example})",
            "inconclusive": ", ".join(metrics) or None,
            "advice": advice,
        }


def finding_lines(findings: Iterable[Finding]) -> Iterator[str]:
    """Yield a line for each kind of finding, and below it what is inconclusive and how to fix it."""
    for row in by_kind(findings):
        number = counted(row["sessions"], "session")
        if row["count"] != row["sessions"]:
            number = f"{row['count']} in {number}"
        what, _, example = row["what"].partition(" (such as ")
        line = printable(f"{row['code']}: {what} ({number})", newline=" ")
        if len(line) > WIDTH:
            room = WIDTH - len(f"… ({number})")
            line = f"{line[:room]}… ({number})"
        yield line
        below = (
            f"such as {example.removesuffix(')')}" if example else "",
            f"inconclusive: {row['inconclusive']}" if row["inconclusive"] else "",
            row["advice"] or "",
        )
        for text in below:
            yield from _indented(printable(text, newline=" "))


def _indented(text: str) -> list[str]:
    return wrap(text, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
