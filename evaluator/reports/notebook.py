"""What a notebook shows of a value: the lines and tables that the command line prints, as HTML."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from rich.console import Console, RenderableType

if TYPE_CHECKING:
    from spangrade.evaluator.grading.run import Run
    from spangrade.evaluator.session import Session
    from spangrade.evaluator.statistics.comparison.condition import Compared

_WIDTH = 120
_FORMAT = '<pre style="overflow-x:auto;line-height:1.3">{code}</pre>'


def html_of(*parts: RenderableType) -> str:
    """Return tables and texts as HTML, in which recorded text is text."""
    console = Console(record=True, width=_WIDTH, file=io.StringIO(), force_jupyter=False, highlight=False)
    console.print(*parts)
    return console.export_html(inline_styles=True, code_format=_FORMAT)


def session_html(session: Session) -> str:
    """Return a session: its conversation, turn by turn, with the calls."""
    from spangrade.evaluator.reports.session_text import session_text

    return html_of(*session_text(session, None))


def run_html(run: Run) -> str:
    """Return a run: the lines that head it, and its sessions and metrics."""
    from spangrade.evaluator.reports.headline import head_of_run, shown
    from spangrade.evaluator.reports.tables import run_tables

    tables = run_tables(run, every=True)
    return html_of(shown(head_of_run(run)), *([] if tables is None else [tables]))


def comparison_html(compared: Compared) -> str:
    """Return a comparison: the lines that head it, and all metrics and questions that flipped."""
    from spangrade.evaluator.reports.comparison import comparison_tables
    from spangrade.evaluator.reports.headline import head_of_comparison, shown

    head = head_of_comparison(compared, compared.exit_code())
    return html_of(shown(head), comparison_tables(*compared))
