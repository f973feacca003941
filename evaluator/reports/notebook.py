"""What a notebook shows of a value: the lines and tables that the command line prints, as HTML."""

from __future__ import annotations

import io
from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from spangrade.evaluator.database import Database, GradedSession
    from spangrade.evaluator.grading.run import Run
    from spangrade.evaluator.session import Session
    from spangrade.evaluator.statistics.comparison.condition import Compared

_WIDTH = 120
_ROWS, _FEW = 50, 5
_LONGEST = 200  # characters of a cell
_OF_SESSIONS = (
    "verdict",
    "session_id",
    "first_input",
    "started_at",
    "turns",
    "cost_usd",
    "total_s",
    "errors",
)
_OF_RUNS = ("name", "graded_at", "dataset", "sessions", "passed", "failed", "inconclusive", "broken")
_FORMAT = '<pre style="overflow-x:auto;line-height:1.3">{code}</pre>'


def html_of(*parts: RenderableType) -> str:
    """Return tables and texts as HTML, in which recorded text is text."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_jupyter=False, highlight=False)
    console.print(*parts)
    return console.export_html(inline_styles=True, code_format=_FORMAT)


def table_of(columns: Sequence[str], rows: Sequence[Sequence[Any]], more: int = 0) -> str:
    """Return rows as a table of HTML; `more` is how many others there are."""
    head = "".join(f"<th>{escape(name)}</th>" for name in columns)
    body = "".join(f"<tr>{''.join(f'<td>{_text(value)}</td>' for value in row)}</tr>" for row in rows)
    rest = f"<p>and {more:,} more</p>" if more > 0 else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}"


def _text(value: Any) -> str:
    text = "–" if value is None or value == "" else f"{value:.4g}" if isinstance(value, float) else str(value)
    return escape(text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…")


def session_html(session: Session) -> str:
    """Return a session: its conversation, turn by turn, with the calls."""
    from spangrade.evaluator.reports.session_text import session_text

    return html_of(*session_text(session, None, is_alone=True))


def graded_session_html(shown: GradedSession) -> str:
    """Return a session with the verdict of its latest grade and all scores."""
    from spangrade.evaluator.reports.session_text import session_text

    return html_of(*session_text(shown.session, shown.grade, shown.external_scores))


def run_html(run: Run) -> str:
    """Return a run: the lines that head it, and its grid of sessions, a row each, by metrics."""
    from spangrade.evaluator.grading.stored_sessions import GRAVEST_FIRST
    from spangrade.evaluator.reports.headline import head_of_run, shown

    metrics = list(run.shown_metrics)
    values = {(row["session_id"], row["question_id"], row["metric"]): row for row in run.scores.rows()}
    rows = sorted(run.sessions, key=lambda one: GRAVEST_FIRST.index(one.verdict))

    def cell(key: tuple[str | None, str | None, str]) -> str:
        score = values.get(key)
        if score is None or score["value"] is None:
            return ""
        mark = {True: "✓ ", False: "✕ "}.get(score["passed"], "")
        return f"{mark}{score['value']:.4g}"

    grid = [
        (
            *(one.verdict.value, one.question_id or one.session_id, one.reason),
            *(cell((one.session_id, one.question_id, metric)) for metric in metrics),
        )
        for one in rows[:_ROWS]
    ]
    columns = ("verdict", "question", "reason", *metrics)
    return html_of(shown(head_of_run(run))) + table_of(columns, grid, len(rows) - _ROWS)


def database_html(db: Database) -> str:
    """Return a database: its newest sessions and its newest runs."""
    runs = db.list_runs(limit=_FEW)
    of_runs = [[row[name] for name in _OF_RUNS] for row in runs.rows()]
    parts = [f"<p>{escape(str(db.path))}: {len(db):,} sessions</p>"]
    parts += [table_of(_OF_RUNS, of_runs)] if of_runs else []
    return "".join([*parts, sessions_html(db)])


def sessions_html(db: Database) -> str:
    """Return the newest sessions of a database as a table."""
    rows = db.list_sessions(limit=_ROWS + 1).rows()
    listed = [[row[name] for name in _OF_SESSIONS] for row in rows[:_ROWS]]
    return table_of(_OF_SESSIONS, listed) + ("<p>and more</p>" if len(rows) > _ROWS else "")


def comparison_html(compared: Compared) -> str:
    """Return a comparison: the lines that head it, and all metrics and questions that flipped."""
    from spangrade.evaluator.reports.comparison import comparison_tables
    from spangrade.evaluator.reports.comparison_head import head_of_comparison
    from spangrade.evaluator.reports.headline import shown

    head = head_of_comparison(compared, compared.exit_code())
    return html_of(shown(head), comparison_tables(*compared))
