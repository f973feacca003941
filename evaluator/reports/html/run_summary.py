"""A run as files show it: the values of its page, its verdicts and the rows of its sessions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from spangrade.evaluator.grading.run_list import LATEST, find_run_id
from spangrade.evaluator.grading.verdict import PRECEDENCE, Verdict
from spangrade.evaluator.reports.html.queries import page_query
from spangrade.evaluator.reports.html.run_page import run_page
from spangrade.tracer.store import Store

_GRAVEST_FIRST = [*map(str, PRECEDENCE), str(Verdict.UNMATCHED), str(Verdict.PASSED)]


class SessionRow(NamedTuple):
    """A session of a run, or (`session_id` None) a golden question that no session answers."""

    session_id: str | None
    question_id: str | None
    verdict: str
    reason: str
    start_ns: int | None = None
    total_s: float | None = None
    cost_usd: float | None = None
    tokens: int | None = None
    turns: int | None = None
    errors: int | None = None
    first_input: str | None = None


class RunSummary(NamedTuple):
    """A run; `rows` are its sessions, the gravest first, and may be fewer than `total`.

    `page` are the values of `run_body.html`.
    """

    run_id: str
    page: Mapping[str, Any]
    verdicts: Mapping[str, int]
    rows: tuple[SessionRow, ...]
    total: int


def run_summary(store: Store, run_id: str | None, most_rows: int) -> RunSummary:
    """Return a run, without a name the latest. Raises InputError as `find_run_id` does."""
    found = find_run_id(store, run_id or LATEST)
    number_of = dict(store.query(page_query("run_verdicts"), {"run": found}))
    counts = {verdict: number_of[verdict] for verdict in _GRAVEST_FIRST if verdict in number_of}
    rows = store.query(
        page_query("run_sessions"),
        {"run_id": found, "gravest_first": _GRAVEST_FIRST, "most": most_rows},
    )
    return RunSummary(
        found,
        run_page(store, found) or {},
        counts,
        tuple(SessionRow(*row) for row in rows),
        sum(number_of.values()),
    )
