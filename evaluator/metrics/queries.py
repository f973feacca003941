"""SQL metrics: a query over the derived views that returns a value for each session."""

from __future__ import annotations

import re
from decimal import Decimal
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import duckdb

from spangrade.evaluator.metrics.definitions import NAME
from spangrade.evaluator.metrics.metric import Inconclusive, Metric, Outcome, Score
from spangrade.evaluator.session import Session
from spangrade.tracer.errors import InputError
from spangrade.tracer.store import Store

_HEADER = re.compile(r"--\s*(\w+)\s*:\s*(.*?)\s*")
_KEYS = ("name", "threshold", "direction", "unit", "description")
_DIRECTIONS = {"higher": True, "lower": False}
_ANY_NUMBER = (float("-inf"), float("inf"))


class Query:
    """A metric's query. Run once over a store, it then says of each session what its row said."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self._text = text
        self._rows: dict[str, tuple[Any, str]] | None = None

    def run(self, store: Store) -> None:
        """Ask the store. The query can neither write nor reach a file or the network, then and after.

        Raises InputError for what is no single SELECT, or returns other columns, a value that is no number,
        or a session twice.
        """
        connection = store.connection
        try:
            connection.execute("SET enable_external_access = false")
            statements = connection.extract_statements(self._text)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                raise InputError(f"{self.path}: right is one SELECT, found {len(statements)} statements")
            connection.execute("BEGIN TRANSACTION READ ONLY")
            try:
                cursor = connection.execute(statements[0])
                names = [column[0] for column in cursor.description or ()]
                rows = cursor.fetchall()
            finally:
                connection.execute("ROLLBACK")
        except duckdb.Error as error:
            raise InputError(f"{self.path}: {str(error).splitlines()[0]}") from error
        if not {"session_id", "value"} <= set(names):
            raise InputError(
                f"{self.path}: right are the columns session_id, value and reason, found {', '.join(names)}"
            )
        found: dict[str, tuple[Any, str]] = {}
        for row in rows:
            cells = dict(zip(names, row, strict=True))
            session_id, value = cells["session_id"], cells["value"]
            if value is not None and not isinstance(value, int | float | Decimal):
                raise InputError(f'{self.path}: session "{session_id}": value {value!r:.80} is no number')
            if session_id in found:
                raise InputError(f'{self.path}: session "{session_id}" is returned twice')
            found[session_id] = value, str(cells.get("reason") or "")
        self._rows = found

    def __call__(self, session: Session) -> Outcome:
        """What the query returned for a session."""
        if self._rows is None:
            raise InputError(f"{self.path}: the query was not run")
        if session.session_id not in self._rows:
            return Inconclusive("the query does not return this session")
        value, reason = self._rows[session.session_id]
        return (
            Inconclusive(reason or "the query's value is NULL")
            if value is None
            else Score(float(value), reason=reason)
        )


def load_query(path: Path) -> Metric:
    """The metric in a `.sql` file. Raises `InputError` for one that cannot be read or has a wrong header."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: not UTF-8 at byte {error.start}") from error
    header = _header(path, text)
    name, direction = header.get("name", ""), header.get("direction", "higher")
    if not NAME.fullmatch(name):
        raise InputError(f'{path}: name: found "{name}"; right is a line "-- name: NAME"')
    if direction not in _DIRECTIONS:
        raise InputError(f'{path}: direction: found "{direction}"; right is higher or lower')
    unit = header.get("unit", "")
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
    """The `-- key: value` lines above the query."""
    header: dict[str, str] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("--"):
            break
        found = _HEADER.fullmatch(line)
        if found is None:
            continue
        key, value = found[1].lower(), found[2]
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
