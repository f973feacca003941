"""A run as a CSV table: a row per session, and one per golden question that no session answers."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from spangrade.converters.datasets.files import create
from spangrade.evaluator.grading.run import Run
from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import printable

# A cell that begins with one of these may be run as a formula by a spreadsheet.
_FORMULA = tuple("=+-@\t\r\n\N{FULLWIDTH EQUALS SIGN}\N{FULLWIDTH PLUS SIGN}\N{FULLWIDTH HYPHEN-MINUS}＠")

_COLUMNS = (
    "eval_id",
    "session_id",
    "agent_name",
    "timestamp",
    "metric.duration_sec",
    "metric.total_tokens",
    "metric.turn_count",
    "metric.tool_calls",
    "metric.tool_errors",
    "metric.unique_tools",
    "eval_set_result_id",
    "question_id",
    "user_id",
    "agents_evaluated",
    "user_inputs",
    "final_response",
    "system_instructions",
    "sub_agent_trace",
    "trace_summary",
    "extracted_data",
    "custom_extract",
    "session_state",
    "session_trace",
    "verdict",
    "reason",
)


def write_csv(run: Run, rows: Iterable[tuple[Mapping[str, Any], Mapping[str, Any]]], file: Path) -> None:
    """Write a run to a CSV file; a row is a line of sessions.jsonl with the session's `columns` of facts.

    `score.NAME` and `passed.NAME` are the value of a metric and whether it met its threshold. Unknown is an
    empty cell. Text that a spreadsheet could run as a formula begins with an apostrophe.
    """
    measured = [f"{kind}.{name}" for name in run.metrics for kind in ("score", "passed")]
    with io.TextIOWrapper(create(file), encoding="utf-8", newline="") as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(map(csv_cell, (*_COLUMNS, *measured)))
        for graded, columns in rows:
            row = {
                **columns,
                "eval_id": graded["question_id"],
                "eval_set_result_id": run.run_id,
                "question_id": graded["question_id"],
                "verdict": graded["verdict"],
                "reason": graded["reason"],
            }
            cells = [csv_cell(row.get(column)) for column in _COLUMNS]
            for name in run.metrics:
                cells += _score(graded["metrics"].get(name))
            table.writerow(cells)


def _score(outcome: Mapping[str, Any] | None) -> tuple[Any, Any]:
    """Return the value of an outcome, and whether it passed."""
    if outcome is None or outcome["outcome"] not in ("score", "bound"):
        return None, None
    return (outcome["value"] if outcome["outcome"] == "score" else None), outcome["passed"]


def csv_cell(value: Any) -> Any:
    """Return a value as a cell: lists and objects as JSON text, and no text that is a formula."""
    if value is None or isinstance(value, int | float):
        return value
    text = value if isinstance(value, str) else dumps(value)
    return printable(f"'{text}" if text.startswith(_FORMULA) else text)
