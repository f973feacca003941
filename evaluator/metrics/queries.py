"""SQL metrics: a query over the derived views that returns a value per session."""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb

from spangrade.evaluator.metrics.definitions import NAME
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.base.errors import InputError
from spangrade.tracer.store import Store
from spangrade.tracer.store.query import check_one_select, columns_of, select
from spangrade.tracer.store.sql import error_line

_HEADER = re.compile(r"--\s*(\w+)\s*:\s*(.*?)\s*")
_KEYS = ("name", "threshold", "direction", "unit", "description")
_DIRECTIONS = {"higher": True, "lower": False}
_ANY_NUMBER = (float("-inf"), float("inf"))


class Query:
    """A metric's query: `run` executes it once; a call then returns the outcome for one session."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text
        self._results: dict[str, tuple[Any, str]] | None = None
        self._error = f"{path}: the query has not run"

    def try_run(self, store: Store) -> None:
        """Run the query; if that fails, every call raises InputError, so that only this metric breaks.

        Raises InputError if the query cannot run on any data: a table or column that there is not.
        """
        self._check_columns(columns_of(store, self._text, where=str(self.path)))
        try:
            self.run(store)
        except InputError as error:
            self._error = str(error)

    def run(self, store: Store) -> None:
        """Run the query on a store that is open with `confined`: see `tracer.store.query`.

        Raises InputError unless it is one SELECT, within its limits, with the expected columns, a number or
        NULL as each value, and each session once.
        """
        result = select(store, self._text, where=str(self.path))
        self._check_columns(result.columns)
        results: dict[str, tuple[Any, str]] = {}
        for cells in result:
            session_id, value = cells["session_id"], cells["value"]
            if value is not None and not isinstance(value, int | float | Decimal):
                raise InputError(f'{self.path}: session "{session_id}": value {value!r:.80} is not a number')
            if session_id in results:
                raise InputError(f'{self.path}: session "{session_id}" is returned twice')
            results[session_id] = value, str(cells.get("reason") or "")
        self._results = results

    def _check_columns(self, names: Sequence[str]) -> None:
        if not {"session_id", "value"} <= set(names):
            raise InputError(
                f"{self.path}: expected the columns session_id, value and reason, found {', '.join(names)}"
            )

    def __call__(self, session: Session) -> Outcome:
        """Return the query's result for a session."""
        if self._results is None:
            raise InputError(self._error)
        if session.session_id not in self._results:
            return Inconclusive("the query does not return this session")
        value, reason = self._results[session.session_id]
        return (
            Inconclusive(reason or "the query's value is NULL")
            if value is None
            else Score(float(value), reason=reason)
        )


def load_query(path: Path) -> Metric:
    """Return the metric in a `.sql` file.

    Raises `InputError` if it cannot be read, its header is wrong, or it is not one SELECT.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error
    header = _header(path, text)
    name, direction = header.get("name", ""), header.get("direction", "higher")
    if not NAME.fullmatch(name):
        raise InputError(f'{path}: name: found "{name}"; expected a line "-- name: NAME"')
    if direction not in _DIRECTIONS:
        raise InputError(f'{path}: direction: found "{direction}"; expected higher or lower')
    unit = header.get("unit", "")
    try:
        with duckdb.connect(":memory:") as connection:
            check_one_select(connection, text)
    except (InputError, duckdb.Error) as error:
        raise InputError(f"{path}: {error_line(error)}") from error
    return Metric(
        name,
        Query(path, text),
        header.get("description", ""),
        threshold=_threshold(path, header.get("threshold")),
        higher_is_better=_DIRECTIONS[direction],
        unit=unit or "number",
        scale=None if unit == "share" else _ANY_NUMBER,
    )


def _header(path: Path, text: str) -> dict[str, str]:
    """Return the `-- key: value` lines above the query."""
    header: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("--"):
            break
        match = _HEADER.fullmatch(line)
        if match is None:
            continue
        key, value = match[1].lower(), match[2]
        if key in header:
            raise InputError(f"{path}:{number}: {key} is given twice")
        near = get_close_matches(key, _KEYS, n=1, cutoff=0.75)
        if key in _KEYS:
            header[key] = value
        elif near:
            raise InputError(f'{path}:{number}: unknown key "{key}"; did you mean "{near[0]}"?')
    return header


def _threshold(path: Path, text: str | None) -> float | None:
    if not text:
        return None
    try:
        return float(text)
    except ValueError as error:
        raise InputError(f'{path}: threshold: expected a number, found "{text}"') from error
