"""What recordings lack, for people: findings that differ only in the session and the count as one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spangrade.evaluator.maintenance.lint import Finding


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
