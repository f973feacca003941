"""The views over stored grades: `NAME.sql` in this folder is the query of the view NAME."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache

import nanoarrow as na

from spangrade.tracer.store import Store
from spangrade.tracer.store.sql import statement

VIEWS = ("run_cells", "grades", "latest_scores", "arrived_since", "review_queue")
_OF_STATEMENTS = ("model_sessions",)  # that a database does not have as views
_NAMED = re.compile(rf"{{({'|'.join((*VIEWS, *_OF_STATEMENTS))})}}")


@cache
def with_views(text: str) -> str:
    """Return a statement with the query of a view for each name of one in braces, as in `FROM {grades}`.

    A database may have something else under the name itself.
    """
    return _NAMED.sub(lambda found: f"({view_query(found[1])})", text)


def view_query(name: str) -> str:
    """Return the query of a view, with the queries of the views that it reads."""
    return with_views(statement(name, "spangrade.evaluator.results"))


def sessions_query(columns: str, chosen: str = "") -> str:
    """Return the query of sessions with their verdicts: their columns, and the selection."""
    return view_query("sessions").replace("{columns}", columns).replace("{chosen}", chosen)


def place_verdicts(store: Store, run_ids: Sequence[str], graded: na.Array | None = None) -> None:
    """Say which verdicts count after some runs were written, within the caller's transaction.

    `graded` are the ids of the sessions of which verdicts were written, if they are not all of the runs'.
    """
    of_runs = "SELECT session_id FROM verdicts WHERE run_id IN (SELECT unnest($runs))"
    text = view_query("place_verdicts").replace("{graded}", of_runs if graded is None else "FROM graded")
    store.query(text, {"runs": list(run_ids)}, **({} if graded is None else {"graded": graded}))
