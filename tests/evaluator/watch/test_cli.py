"""`spangrade serve --only grade` on the command line."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import Spangrade
from sinks import hook
from watching import BAD, GATE, OK, add, verdicts

from spangrade.evaluator.apps.server.grade.deliveries import KEY_VARIABLE
from spangrade.evaluator.apps.server.grade.webhook import SECRET_VARIABLE


@pytest.mark.exhaustive
def test_once_grades_what_is_idle_and_exits_with_0(tmp_path: Path, spangrade: Spangrade) -> None:
    db = tmp_path / "s.duckdb"
    add(db, [("good", OK), ("bad", BAD)])
    for printed in ("2 sessions graded: 1 passed, 1 failed", "0 sessions graded"):
        done = spangrade(
            "serve", "--only", "grade", "--db", db, "--metric", GATE, "--once", "--notify-since", "1970-01-01"
        )
        assert (done.code, done.out, done.err) == (0, [printed], [])
    assert verdicts(db) == [("bad", "failed"), ("good", "passed")]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ((), "--metric: grade by what? Expected a dataset, metrics, or gates in spangrade.toml"),
        (("--idle", "soon"), "--idle: expected a duration such as 30s, 5m or 1h, found 'soon'"),
        (("--sample", "150%"), "--sample: expected a share above 0 and up to 100%, found '150%'"),
        (
            ("--metric", GATE, "--once"),
            "s.duckdb: no such database: start `spangrade serve --only receive`, or import",
        ),
    ],
)
def test_what_cannot_be_used_is_one_line_and_exit_code_2(
    tmp_path: Path,
    spangrade: Spangrade,
    monkeypatch: pytest.MonkeyPatch,
    options: tuple[str, ...],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = spangrade("serve", "--only", "grade", "--db", "s.duckdb", *options)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert message in done.err[0]


def test_a_query_that_cannot_run_is_one_line_although_no_session_is_idle(
    tmp_path: Path, spangrade: Spangrade
) -> None:
    db, query = tmp_path / "s.duckdb", tmp_path / "query.sql"
    add(db, [("good", OK)])
    query.write_text("-- name: slow\nSELECT session_id, totl_s AS value FROM sessions")
    command = [
        "serve",
        "--only",
        "grade",
        "--db",
        db,
        "--idle",
        "1h",
        "--metrics-file",
        query,
        "--metric",
        "slow>=1",
    ]
    done = spangrade(*command)
    assert (done.code, done.out, len(done.err)) == (2, [], 1)
    assert 'query.sql: Binder Error: Referenced column "totl_s" not found' in done.err[0]
    assert 'Candidate bindings: "total_s"' in done.err[0]


def test_an_empty_key_of_the_outbox_is_made_again(
    tmp_path: Path, spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(KEY_VARIABLE)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    monkeypatch.setenv(SECRET_VARIABLE, "0123456789abcdef")
    key = tmp_path / "spangrade" / "outbox.key"
    key.parent.mkdir()
    key.touch()  # as if its writer was killed
    db = tmp_path / "s.duckdb"
    add(db, [("bad", BAD)])
    with hook() as receiving:
        monkeypatch.setenv("SPANGRADE_WEBHOOK", receiving.url)
        done = spangrade(
            "serve", "--only", "grade", "--db", db, "--metric", GATE, "--once", "--notify-since", "1970-01-01"
        )
    assert (done.code, done.err, len(receiving.applied), len(key.read_bytes())) == (0, [], 1, 32)


def test_a_duration_without_a_unit_is_in_seconds(tmp_path: Path, spangrade: Spangrade) -> None:
    db = tmp_path / "s.duckdb"
    add(db, [("good", OK)])
    options = ["--metric", GATE, "--once", "--idle", "2", "--every", "0.5"]
    done = spangrade("serve", "--only", "grade", "--db", db, *options)
    assert (done.code, done.out, done.err) == (0, ["1 session graded: 1 passed"], [])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
@pytest.mark.short_form("number", 2)
def test_a_signal_ends_it_with_a_summary_and_exit_code_0(tmp_path: Path, number: signal.Signals) -> None:
    db = tmp_path / "s.duckdb"
    add(db, [("bad", BAD)])
    command = [
        sys.executable,
        "-m",
        "spangrade",
        "serve",
        "--only",
        "grade",
        "--db",
        str(db),
        "--metric",
        GATE,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        graded = process.stdout.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert graded.endswith(" 1 session graded: 1 failed\n")
    assert (process.returncode, out) == (0, "1 session graded: 1 failed\n")
    started, stopped = err.splitlines()
    assert started.endswith(f" INFO grading {db}: sessions are graded when idle for 5m")
    assert stopped.endswith(" INFO stopped")


@pytest.mark.parametrize("metric", [GATE, "polite>=1"])
@pytest.mark.short_form("metric", 2)
def test_it_waits_for_a_locked_file_at_its_start(tmp_path: Path, metric: str) -> None:
    db, metrics = tmp_path / "s.duckdb", tmp_path / "metrics.json"
    add(db, [("one", OK)])
    template = "Is it polite? {response} Score: [1-5]"
    metrics.write_text(json.dumps({"metrics": {"polite": {"template": template}}}))
    command = [
        sys.executable,
        "-m",
        "spangrade",
        "serve",
        "--only",
        "grade",
        "--db",
        str(db),
        "--metric",
        metric,
    ]
    hold = f"import duckdb; c = duckdb.connect({str(db)!r}); print('open', flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", hold], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as holder:
        holder.stdout.readline()
        with subprocess.Popen(
            [*command, "--every", "1s", "--metrics-file", str(metrics)], stderr=subprocess.PIPE, text=True
        ) as watching:
            lines = [watching.stderr.readline()]
            holder.communicate("\n")
            while " INFO grading " not in lines[-1] and (line := watching.stderr.readline()):
                lines.append(line)
            watching.terminate()
            assert watching.wait(60) == 0
    assert [" INFO grading " in line for line in lines] == ([True] if metric == GATE else [False, True])
