"""Failures in clusters, for people and as JSON values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.text import Text

from spangrade.evaluator.reports.tables import cell
from spangrade.evaluator.statistics.clusters import Cluster
from spangrade.tracer.base.terminal import counted

_MOST_REASONS = 3  # of a cluster, those of most sessions


def explained(clusters: Iterable[Cluster], about: str = "") -> Text:
    """Return each cluster: what distinguishes it from passing sessions, its path, examples, a line."""
    lines: list[Text] = []
    for one in clusters:
        lines.append(cell(f"{one.what}: {counted(len(one.sessions), 'session')}"))
        if [what for what, _ in one.reasons] not in ([], [one.what]):
            reasons = ", ".join(f"{what} ({number})" for what, number in one.reasons[:_MOST_REASONS])
            lines.append(cell(f"  reasons: {reasons}"))
        for fact in one.facts:
            here, passing = f"{fact.here} of {fact.of}", f"{fact.passing} of {fact.of_passing}"
            lines.append(cell(f"  {fact.text}: {here}; {passing} that pass"))
        lines.append(cell(f"  path: {', '.join(one.shared) or 'no step is shared'}"))
        if one.parts:
            lines.append(cell(f"  {one.parts} ({one.parted} of {one.compared})"))
        elif not one.compared:
            which = (
                "of these questions"
                if any(each.question_id for each in one.sessions)
                else "without a question"
            )
            lines.append(Text(f"  no session {which} passes; --baseline RUN has some"))
        if one.look_at:
            lines.append(cell(f"  look at: {one.look_at}"))
        lines.append(cell(f"  for example: {', '.join(one.examples)}"))
    if not lines:
        return Text(f"no failure says {about!r}" if about else "no session failed")
    return Text("\n").join(lines)


def cluster_json(cluster: Cluster) -> dict[str, Any]:
    """Return a cluster as JSON values."""
    return {
        "what": cluster.what,
        "sessions": [one.session_id for one in cluster.sessions],
        "questions": list(dict.fromkeys(one.key for one in cluster.sessions)),
        "shared_path": list(cluster.shared),
        "parts": cluster.parts or None,
        "parted": cluster.parted,
        "compared": cluster.compared,
        "examples": list(cluster.examples),
        "reasons": [{"what": what, "sessions": number} for what, number in cluster.reasons],
        "facts": [fact._asdict() for fact in cluster.facts],
        "look_at": cluster.look_at or None,
    }
