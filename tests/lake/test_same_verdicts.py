"""One question, one answer: a lake and a file with the same sessions have the same verdicts, by each door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command_line import Spangrade
from doors import GATES, GOLDEN, SPECS, Asked, of_grades, of_run
from made_once import copy_of_sample
from paths import SAMPLE
from servers import Postgres

import spangrade as package
from spangrade.evaluator.apps.lake import api
from spangrade.evaluator.database import open_lake

# A folder of a dataset and its spans is imported before it is graded: into a file.
OF_STORED = {name: asked for name, asked in SPECS.items() if asked.dataset != SAMPLE}


@pytest.fixture(scope="module")
def stores(catalogs: Postgres, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Return a database of the sample, two of whose sessions have a score from outside, and a lake of it."""
    folder = tmp_path_factory.mktemp("stores")
    db, catalog = copy_of_sample(folder / "s.duckdb"), catalogs.new_database()
    opened = package.open(db, settings=None)
    opened.score("conversation-1", {"thumbs": 1}, by="ann")
    opened.score("conversation-2", {"thumbs": 0}, by="ann")
    api.import_file(catalog, db, str(folder / "lake"))
    return db, catalog


@pytest.mark.parametrize("asked", OF_STORED.values(), ids=OF_STORED)
@pytest.mark.short_form("asked", 6)
def test_a_lake_gives_the_verdicts_of_a_file(
    asked: Asked,
    stores: tuple[Path, str],
    spangrade: Spangrade,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spangrade.toml").write_text(asked.settings)
    file, catalog = stores
    expected = package.open(file).grade(asked.spec)
    lake = open_lake(catalog)
    run = lake.grade(asked.spec)
    assert (of_run(run), run.exit_code) == (of_run(expected), expected.exit_code)
    assert lake.runs()[-1].to_json() == run.to_json()

    done = spangrade("grade", "--db", catalog, *asked.options, "--format", "json")
    printed = json.loads("\n".join(done.out))
    assert (done.code, of_grades(printed["grades"])) == (expected.exit_code, of_run(expected))
    for command in (("audit", "--mutants", "1"), ("lint", "--dataset")):
        if asked.dataset is None or (command[0] == "lint" and asked.select):
            continue
        shown = [
            spangrade(command[0], *where, *command[1:], *asked.options, "--format", "json")
            for where in (("--db", catalog), ("--db", file))
        ]
        assert shown[0].err == shown[1].err
        printed = [json.loads("\n".join(one.out)) for one in shown]
        if command[0] == "lint":  # in the order in which sessions were derived
            printed = [sorted(findings, key=json.dumps) for findings in printed]
        assert (shown[0].code, printed[0]) == (shown[1].code, printed[1])


def test_what_people_say_of_a_session_of_a_lake_is_stored(
    stores: tuple[Path, str], spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    file, catalog = stores
    said = []
    for where in (("--db", catalog), ("--db", file)):
        assert spangrade("label", "conversation-4", "fail", *where, "--by", "ann").code == 0
        assert spangrade("label", "conversation-4", "pass", *where, "--by", "ann").code == 0
        assert spangrade("label", "conversation-4", "--score", "stars=3", *where).code == 0
        opened = open_lake(catalog) if where[1] == catalog else package.open(file)
        given = [
            (one.name, one.value, one.source, one.author) for one in opened.external_scores("conversation-4")
        ]
        reviewed = [one.session_id for one in opened.to_review(queue="sampled")]
        spans = [reading.observation.span.span_id for reading in opened.why("conversation-4")]
        said.append((given, reviewed, spans))
    assert said[0] == said[1]
    assert said[0][0] == [("label", 1.0, "person", "ann"), ("stars", 3.0, "program", None)]


def test_a_run_of_a_lake_is_graded_again_with_the_same_changes(
    stores: tuple[Path, str], spangrade: Spangrade, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "spangrade.toml").write_text(GATES)
    again = []
    for where in (("--db", stores[1]), ("--db", stores[0])):
        graded = spangrade("grade", *where, "--run", "first", "--out", tmp_path / where[0])
        assert graded.code == 1
        assert (tmp_path / where[0] / "report.html").exists()
        done = spangrade(
            "grade",
            "--dry-run",
            "--of-run",
            "first",
            *where,
            "--metric",
            "tool_success_rate>=0.1",
            "--format",
            "json",
        )
        value = json.loads("\n".join(done.out))
        again.append((done.code, value["changes"]))
    assert again[0] == again[1]
    assert len(again[0][1]) == 2


def test_with_a_session_of_a_lake_what_was_said_of_it_is_deleted(catalogs: Postgres, tmp_path: Path) -> None:
    catalog, data = catalogs.new_database(), tmp_path / "lake"
    api.import_file(catalog, copy_of_sample(tmp_path / "s.duckdb"), str(data))
    lake = open_lake(catalog, settings=None)
    lake.label("conversation-4", "fail", by="ann", note="Zebrafish")
    assert lake.grade(GOLDEN).verdicts["passed"] == 4
    assert api.delete(catalog, sessions=["conversation-4"]).sessions == 1
    assert [one.session_id for one in lake.external_scores()] == []
    query = "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'"
    rows = [
        catalogs.execute(catalog, f"SELECT * FROM {name}")
        for name in catalogs.execute(catalog, query).split()
    ]
    assert [row for row in rows if "Zebrafish" in row or "conversation-4" in row] == []
    assert [file for file in data.rglob("*.parquet") if b"Zebrafish" in file.read_bytes()] == []


@pytest.mark.parametrize(
    ("command", "why"),
    [
        (("grade", SAMPLE), "a lake has no file: `spangrade lake` imports, derives and deletes"),
        (
            ("grade", "--metric", "cost<=1", "--last-import"),
            "nothing was imported into {catalog} since it has such a record",
        ),
    ],
)
def test_what_a_lake_cannot_grade_is_said_in_one_line(
    command: tuple[object, ...], why: str, stores: tuple[Path, str], spangrade: Spangrade
) -> None:
    done = spangrade(*command, "--db", stores[1])
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert done.err[0].endswith(why.format(catalog=stores[1]))
