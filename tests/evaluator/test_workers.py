"""Several processes read spans: the tables have the same rows, and a failure leaves whole steps."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from in_workers import die_at_3, fail_at_3
from paths import SAMPLE

import spangrade
from spangrade import SpangradeError
from spangrade.evaluator.derive.sync import intake, parts, recorded
from spangrade.evaluator.derive.sync.workers import default_workers, few_collections, workers_in_order
from spangrade.tracer.store import Store

SPANS = SAMPLE / "spans.otlp.jsonl"


@pytest.fixture(autouse=True)
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give every process a line or two at a time."""
    monkeypatch.setattr(parts, "PART", 10_000)
    monkeypatch.setattr(intake, "WRITE", 20)
    monkeypatch.setattr(recorded, "AT_ONCE", 10)


def rows_of_all_tables(path: Path) -> dict[str, list[tuple[object, ...]]]:
    with Store.open(path, read_only=True) as store:
        tables = store.query(
            "SELECT schema_name || '.' || table_name FROM duckdb_tables() "
            "WHERE table_name NOT IN ('arrivals', 'steps')"
        )
        return {table: sorted(store.query(f"FROM {table}"), key=repr) for (table,) in tables}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Return recordings with repeated and damaged lines, and traces that several files share."""
    folder = tmp_path_factory.mktemp("files")
    lines = SPANS.read_text().splitlines()
    (folder / "a.jsonl").write_text("\n".join([*lines, lines[0], "{oops", *lines[2:]]))
    (folder / "b.json").write_text(lines[1])
    (folder / "c.jsonl").write_text("\n".join(lines))
    return [folder / "a.jsonl", folder / "missing.json", folder / "b.json", folder / "c.jsonl"]


@pytest.mark.exhaustive
def test_the_tables_are_the_same_whatever_the_number_of_workers(files: list[Path], tmp_path: Path) -> None:
    results = []
    for workers in (1, 3):
        problems: list[str] = []
        db = spangrade.open(
            tmp_path / f"{workers}.duckdb", on_problem=lambda p, to=problems: to.append(str(p))
        )
        imported = db.import_files(files, workers=workers)._replace(db="")
        after_import = rows_of_all_tables(db.path)
        assert db.derive(all=True, workers=workers) == 4
        results.append((imported, problems, after_import, rows_of_all_tables(db.path)))
    assert results[0] == results[1]
    assert (results[0][0].spans, results[0][0].records_lost, results[0][0].files_lost) == (44, 1, 1)


@pytest.mark.exhaustive
def test_what_an_import_derives_is_what_is_derived_again(files: list[Path], tmp_path: Path) -> None:
    db = spangrade.open(tmp_path / "s.duckdb", on_problem=lambda problem: None)
    db.import_files(files)
    sessions = sorted(db.sessions(), key=lambda session: session.session_id)
    db.derive(all=True)
    assert sorted(db.sessions(), key=lambda session: session.session_id) == sessions


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_a_worker_that_is_killed_is_an_error_and_ends_the_others() -> None:
    def results() -> Iterator[int]:
        with workers_in_order(2) as in_order:
            yield from in_order(die_at_3, range(100))

    with pytest.raises(SpangradeError, match=r"a worker process ended unexpectedly .* SPANGRADE_WORKERS=1"):
        list(results())


def test_an_error_in_a_worker_comes_where_its_result_would() -> None:
    with workers_in_order(2) as in_order:
        results = iter(in_order(fail_at_3, range(100)))
        assert [next(results) for _ in range(3)] == [0, 1, 2]
        with pytest.raises(ValueError, match="three"):
            next(results)


INTERRUPTED = """
import os, signal, sys
from spangrade.evaluator.derive.sync import intake, parts
import spangrade

parts.PART, intake.WRITE = 10_000, 10
wrote = intake._write

def write_once(*arguments):
    wrote(*arguments)
    os.killpg(0, signal.{signal})

if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it
    intake._write = write_once
    spangrade.open(sys.argv[1]).import_files(sys.argv[2], workers=2)
"""


@pytest.mark.exhaustive
@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
@pytest.mark.parametrize("name", ["SIGINT", "SIGKILL"])
def test_an_import_that_is_interrupted_leaves_whole_steps_and_is_completed_by_the_next(
    name: str, tmp_path: Path
) -> None:
    script, path = tmp_path / "script.py", tmp_path / "s.duckdb"
    script.write_text(INTERRUPTED.replace("{signal}", name))
    ended = subprocess.run(
        [sys.executable, script, path, SPANS], start_new_session=True, capture_output=True, text=True
    )
    assert ended.returncode == -getattr(signal, name)
    assert ended.stderr.count("Traceback") == (name == "SIGINT")  # none of a worker
    with Store.open(path) as store:
        ((spans,),) = store.query("SELECT count(*) FROM spans")
    assert 0 < spans < 44
    db = spangrade.open(path)
    assert db.import_files(SPANS, workers=2).spans == 44 - spans
    whole = spangrade.open(tmp_path / "whole.duckdb")
    whole.import_files(SPANS)
    assert sorted(db.sessions(), key=lambda s: s.session_id) == sorted(
        whole.sessions(), key=lambda s: s.session_id
    )


KILLED = """
import os, signal
from spangrade.evaluator.derive.sync.workers import workers_in_order

if __name__ == "__main__":
    with workers_in_order(2) as in_order:
        next(in_order(abs, range(100)))
        os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.skipif(os.name != "posix", reason="signals are POSIX's")
def test_the_workers_of_a_process_that_is_killed_end(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    # It returns when the last process that has the pipe has ended.
    ended = subprocess.run([sys.executable, script], stdout=subprocess.PIPE, timeout=300)
    assert ended.returncode == -signal.SIGKILL


COPIED = """
import os, sys, threading
from spangrade.evaluator.derive.sync.workers import workers_in_order

imported_by = os.getpid()

def importer(_):
    return imported_by

if __name__ == "__main__":
    if sys.argv[1] == "threads":
        threading.Thread(target=threading.Event().wait, daemon=True).start()
    with workers_in_order(2) as in_order:
        print(set(in_order(importer, range(10))) == {os.getpid()})
"""


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="says how many threads there are")
@pytest.mark.parametrize(("threads", "are_copies"), [("one", True), ("threads", False)])
def test_workers_are_copies_of_a_process_that_has_one_thread(
    threads: str, are_copies: bool, tmp_path: Path
) -> None:
    script = tmp_path / "script.py"
    script.write_text(COPIED)
    ended = subprocess.run([sys.executable, script, threads], capture_output=True, text=True, timeout=300)
    assert (ended.stdout, ended.stderr) == (f"{are_copies}\n", "")


def test_few_spans_are_read_by_one_process() -> None:
    assert default_workers(19_999) == 1
    assert default_workers(20_000) == min(os.cpu_count() or 1, 4)


def test_the_usual_collections_are_back_once_the_last_thread_is_done_with_few() -> None:
    usual = gc.get_threshold()
    first, second = few_collections(), few_collections()
    with first:
        second.__enter__()
    assert gc.get_threshold() != usual  # the other still works
    second.__exit__(None, None, None)
    assert gc.get_threshold() == usual
