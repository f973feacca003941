"""The one writer of results for programs: a JSON value as JSON, and the rows in it as CSV or Markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from spangrade.tracer.base.canonical_json import dumps
from spangrade.tracer.base.terminal import printable_json

_MOST_OF_A_CELL = 1000  # characters, of Markdown


def written(result: Any, form: str, rows: str | None = None) -> Iterator[str]:
    """Yield a result as text: `json`, or its rows in the form `csv` or `markdown`.

    Its rows are the value of its key `rows`, a list or a mapping by name; without `rows` they are the result
    itself, a list or a single row. Columns are all that a row has, in the order of the rows. A value that is
    a list or an object is JSON text; unknown is an empty cell.
    """
    if form == "json":
        yield f"{printable_json(dumps(result, indent=True))}\n"
        return
    found = orjson.loads(dumps(result))  # in JSON's own types
    found = found if rows is None else found[rows]
    if isinstance(found, Mapping):
        listed = [found] if rows is None else [{"name": name, **_row(value)} for name, value in found.items()]
    else:
        listed = list(map(_row, found or ()))
    names = list(dict.fromkeys(name for row in listed for name in row))
    if names:
        yield from (_csv if form == "csv" else _markdown)(names, listed)


def _row(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {"value": value}


def _csv(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    from spangrade.evaluator.reports.csv import csv_cell

    out = io.StringIO()
    table = csv.writer(out, lineterminator="\n")
    for cells in (names, *(map(row.get, names) for row in rows)):
        table.writerow(dumps(one) if isinstance(one, bool) else csv_cell(one) for one in cells)
        yield out.getvalue()
        out.seek(out.truncate(0))


def _markdown(names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    from spangrade.evaluator.reports.markdown import code, table_lines

    def cell(value: Any) -> str:
        text = "" if value is None else value if isinstance(value, str) else dumps(value)
        return code(text, _MOST_OF_A_CELL) if text else ""

    for line in table_lines(map(cell, names), (map(cell, map(row.get, names)) for row in rows)):
        yield f"{line}\n"
