"""The pages of a lake are those of a database file with the same spans."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import NamedTuple

import pytest
from command_line import Spangrade
from servers import Postgres
from spans_of_many import deliveries, land, single_machine

from spangrade import GradeSpec
from spangrade.evaluator.apps.lake import api
from spangrade.evaluator.apps.lake.catalog import attached
from spangrade.evaluator.database import open_lake
from spangrade.tracer.store.sql import text_literal

if find_spec("uvicorn") is None:
    pytest.skip("needs the extra view", allow_module_level=True)

from serving import Served, serving

from spangrade.evaluator.apps.server.pages.database import ViewedLake

LANDED = deliveries(12)
_OF_RUNS = ("runs", "run_metrics", "run_questions", "golden_questions", "verdicts", "scores")


class Both(NamedTuple):
    """A lake's catalog and a database file with the same spans and the same run."""

    catalog: str
    db: Path


@pytest.fixture(scope="module")
def both(catalogs: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Both:
    """A lake with a run, and a file with the same."""
    folder = tmp_path_factory.mktemp("pages")
    catalog = catalogs.new_database()
    questions = [
        {
            "id": f"q{number}",
            "user_inputs": [
                f"hello, I am customer {number}",
                f"question 1 of {number}?",
                f"question 2 of {number}?",
            ],
            "agents_evaluated": ["shop"],
            "reference_data": {"reference_trajectory": [agent]},
        }
        for number, agent in ((1, "shop"), (2, "other"), (99, "shop"))
    ]
    golden = folder / "golden.json"
    golden.write_text(json.dumps({"golden_questions": questions}))
    land(str(folder / "landing"), LANDED)
    api.update(catalog, str(folder / "landing"), str(folder / "lake"), spec=GradeSpec(golden, name="first"))
    db = single_machine(folder / "one.duckdb", LANDED)
    with attached(api.lake_at(catalog)) as store:
        store.query(f"ATTACH {text_literal(str(db))} AS one")
        for table in _OF_RUNS:
            of_a_run = "WHERE run_id IS NOT NULL" if table == "scores" else ""
            store.query(f"INSERT INTO one.{table} BY NAME SELECT * FROM store.{table} {of_a_run}")
    return Both(catalog, db)


@pytest.fixture(scope="module")
def served(both: Both) -> Iterator[tuple[Served, Served]]:
    """The pages of both."""
    with serving(ViewedLake(open_lake(both.catalog).stored)) as of_lake, serving(both.db) as of_file:
        yield of_lake, of_file


def session_of(both: Both, question: str) -> tuple[str, str]:
    with attached(api.lake_at(both.catalog)) as store:
        rows = store.query(
            "SELECT session_id, run_id FROM verdicts WHERE question_id = $question", {"question": question}
        )
    return rows[0]


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/sessions?text=customer+7",
        "/sessions?verdict=failed&run={run}",
        "/sessions?tool=look_up&errors=with&since=2026-01-01&max_latency=1000&sort=cost",
        "/count?agent=helper",
        "/suggestions/tool",
        "/session/{session}",
        "/session/{session}?run={run}",
        "/runs",
        "/run/{run}",
        "/run/{run}/summary",
        "/compare?first={run}&second={run}",
        "/trends",
        "/tools?by=agent",
    ],
)
@pytest.mark.short_form("path", 2)
def test_a_page_of_a_lake_is_that_of_a_file(path: str, both: Both, served: tuple[Served, Served]) -> None:
    session_id, run_id = session_of(both, "q2")
    asked = path.format(session=session_id, run=run_id)
    of_lake, of_file = (one.get(asked) for one in served)
    assert of_lake.status == 200
    # The second page is made a moment later.
    texts = [re.sub(r'data-ago="\d+"(>\d+ s ago)?', "", one.text) for one in (of_lake, of_file)]
    assert texts[0].replace(both.catalog, both.db.name) == texts[1]


@pytest.mark.parametrize(
    "command",
    [
        ("compare", "session_id < 'conv-8'", "session_id >= 'conv-8'"),
        ("trend", "passed"),
        ("runs",),
    ],
)
def test_runs_of_a_lake_are_compared_as_those_of_a_file(
    command: tuple[str, ...], both: Both, spangrade: Spangrade
) -> None:
    of_lake = spangrade(*command, "--db", both.catalog, "--format", "json")
    of_file = spangrade(*command, "--db", both.db, "--format", "json")
    assert (of_lake.code, of_lake.err, len(of_lake.out) > 1) == (0, [], True)
    assert of_lake == of_file


def test_an_exported_run_of_a_lake_is_that_of_a_file(
    both: Both, spangrade: Spangrade, tmp_path: Path
) -> None:
    folders = tmp_path / "lake", tmp_path / "file"
    for folder, where in zip(folders, (("--db", both.catalog), ("--db", both.db)), strict=True):
        done = spangrade("view", *where, "--export", folder)
        assert (done.code, done.out) == (0, [f"{folder / 'index.html'}: 12 sessions"])
    of_lake, of_file = (
        {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*.html")}
        for folder in folders
    )
    assert of_lake == of_file
