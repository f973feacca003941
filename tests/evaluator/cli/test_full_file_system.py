"""On a file system that is full, a command is one line; it loses nothing, and works once there is room."""

from __future__ import annotations

import io
import json
import logging
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from unittest import mock

import pytest
from command_line import Done, run
from every_command import COMMANDS, arguments, fill, leaves
from full_disks import Disk, small_disk
from otlp_sessions import Said, write_sessions
from typer.main import get_command
from watching import BAD, GATE, add, prepared_by, rows, verdicts

from spangrade.evaluator.apps.server.grade.options import WatchOptions
from spangrade.evaluator.apps.server.grade.watch import Watch
from spangrade.evaluator.cli.app import app

pytestmark = pytest.mark.makes_databases

LEAVES = dict(leaves(get_command(app)))
FIRST_WORDS = {
    "import",
    "grade",
    "run",
    "compare",
    "audit",
    "view",
    "label",
    "delete",
    "convert",
}
# All that write but servers, and the commands of a lake, whose files are elsewhere.
WRITING = [words for words in COMMANDS if words[0] in FIRST_WORDS]
REPORTS = [("grade",), ("compare",), ("audit",)]
DB = Path("s.duckdb")
SPANS = "SELECT trace_id, span_id, count(*) FROM spans GROUP BY ALL ORDER BY ALL"
GIVEN = """
SELECT runs.name, session_id, metric, value, scores.reason, author
FROM scores LEFT JOIN runs USING (run_id)
WHERE run_id IS NULL OR runs.name IN ('first', 'second')
ORDER BY ALL
"""
# 100 kB in every answer, of which a database cannot save half.
AGENT = """
import os
import spangrade

def answer(text):
    with spangrade.agent("echo"):
        return os.urandom(50_000).hex()
"""
RUN = (
    "run",
    "agent.py:answer",
    "asked.json",
    "--name",
    "long",
    "--no-references",
    "--metric",
    "turns_answered>=1",
)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Disk]:
    with small_disk(tmp_path / "disk", 32) as made:
        monkeypatch.chdir(made.folder)
        yield made
        monkeypatch.chdir(tmp_path)


def ended(words: tuple[str, ...]) -> Done:
    with mock.patch("sys.stdin", io.StringIO("p\nq\n")):
        return run(*arguments(words, LEAVES[words], "0"))


def refused(done: Done) -> bool:
    """Return whether a command had no space, which is to be one line."""
    if done.code != 2:
        return False
    (*before, last) = done.err
    assert [line.split()[1] for line in before] in ([], ["deleting"])
    assert re.match(r"spangrade: \S+: .*(No space left on device|disk space, 0.0 MB are free)", last)
    return True


@pytest.mark.parametrize("free_pages", [0, 2])
@pytest.mark.short_form("free_pages", 6)
@pytest.mark.short_form("words", 4)
@pytest.mark.parametrize("words", WRITING, ids=" ".join)
def test_a_command_is_one_line_loses_nothing_and_works_once_there_is_room(
    words: tuple[str, ...], free_pages: int, disk: Disk
) -> None:
    fill(disk.folder)
    spans, given = rows(DB, SPANS), rows(DB, GIVEN)
    well = {("run",): 4}.get(words, 0)
    disk.fill(free_pages)
    done = ended(words)
    assert refused(done) or (free_pages and done.code == well)
    disk.make_room()
    if words != ("delete",):
        assert set(spans) <= set(rows(DB, SPANS))
        assert set(given) <= set(rows(DB, GIVEN))
    if done.code == 2:
        assert ended(words).code == well
    assert {copies for *_, copies in rows(DB, SPANS)} == {1}
    assert list(disk.folder.rglob("*new*")) == []


@pytest.mark.exhaustive
@pytest.mark.parametrize("words", REPORTS, ids=" ".join)
@pytest.mark.short_form("words", 2)
def test_the_reports_in_a_folder_stay_those_of_before(words: tuple[str, ...], disk: Disk) -> None:
    fill(disk.folder)
    assert ended(words).code == 0
    before = {file: file.read_bytes() for file in Path("out").iterdir()}
    disk.fill(2)
    assert refused(ended(words))
    assert {file: file.read_bytes() for file in Path("out").iterdir()} == before


@pytest.mark.exhaustive
def test_an_import_that_does_not_fit_is_completed_once_it_does(disk: Disk) -> None:
    fill(disk.folder)
    text = "".join(f"{number:x}" for number in range(700_000))  # 4 MB in hexadecimal digits
    said = [(f"s{n}", [Said(text[n * 40_000 : (n + 1) * 40_000])]) for n in range(100)]
    large = write_sessions(disk.folder.with_name("large.jsonl"), said)
    disk.fill(500)
    assert refused(run("import", large, "--db", DB))
    disk.make_room()
    assert run("import", large, "--db", DB).code == 0
    assert {copies for *_, copies in rows(DB, SPANS)} == {1}
    assert rows(DB, "SELECT count(*) FROM derived.sessions") == [(104,)]


@pytest.mark.exhaustive
def test_a_run_that_has_no_space_is_completed_once_it_has(disk: Disk) -> None:
    fill(disk.folder)
    Path("agent.py").write_text(AGENT)
    questions = [
        {"id": f"q{n}", "user_inputs": ["hello"], "agents_evaluated": ["echo"], "reference_data": {}}
        for n in range(30)
    ]
    Path("asked.json").write_text(json.dumps({"golden_questions": questions}))
    disk.fill(200)
    assert refused(run(*RUN, "--db", DB))
    disk.make_room()
    assert run(*RUN, "--resume", "--db", DB).code == 0
    graded = (
        "SELECT question_id, count(*) FROM verdicts JOIN runs USING (run_id) WHERE name = 'long' GROUP BY ALL"
    )
    assert sorted(rows(DB, graded)) == sorted((f"q{n}", 1) for n in range(30))
    assert {copies for *_, copies in rows(DB, SPANS)} == {1}


@pytest.mark.exhaustive
def test_a_watch_goes_on_once_there_is_room(disk: Disk, caplog: pytest.LogCaptureFixture) -> None:
    add(DB, [("bad", BAD)])
    full, graded, stop = threading.Event(), threading.Event(), threading.Event()
    handler = logging.Handler()
    handler.emit = lambda _: full.set()  # type: ignore[method-assign]
    logging.getLogger("spangrade").addHandler(handler)
    watching = Watch(DB.absolute(), prepared_by(gates=GATE), WatchOptions(every_s=0.05))
    thread = threading.Thread(target=watching.run, args=(stop, lambda _: graded.set()))
    disk.fill()
    thread.start()
    try:
        assert full.wait(60)
        disk.make_room()
        assert graded.wait(60)
    finally:
        stop.set()
        thread.join()
        logging.getLogger("spangrade").removeHandler(handler)
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left on device" in caplog.text
    assert verdicts(DB) == [("bad", "failed")]
