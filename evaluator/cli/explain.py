"""`spangrade explain`."""

from __future__ import annotations

from dataclasses import dataclass

from spangrade.evaluator.cli.options import Printed, Selected, StoredIn
from spangrade.evaluator.cli.output import show
from spangrade.tracer.base.fields import argument, option, values_of


@dataclass(frozen=True, slots=True, kw_only=True)
class ExplainOptions:
    """Which run is explained, and against what."""

    run: str | None = argument(
        None,
        "A run: its name, the beginning of its id, or `latest`; without, all sessions as graded now.",
    )
    what: str = argument("", "A part of what went wrong, such as the name of a tool; without it, all.")
    baseline: str | None = option(
        None, "A run whose passing sessions those of RUN are held against, too.", metavar="RUN"
    )


def explain(select: Selected, explained: ExplainOptions, at: StoredIn, printed: Printed) -> None:
    """Show why sessions failed, those that failed alike together, and what tells them from those that pass.

    What tells them apart is what Fisher's exact test finds in more of them than chance explains: of all that
    is shown at most 5% is expected to be chance (Benjamini and Hochberg).
    """
    with at.opened() as opened:
        found = opened.explain(**values_of(explained), select=select)
    from spangrade.evaluator.reports.clusters import cluster_json
    from spangrade.evaluator.reports.clusters import explained as tables

    if printed.as_table:
        show(tables(found))
    else:
        printed.write(list(map(cluster_json, found)))
