"""The pages over HTTP: routes, headers, hosts and errors."""

from __future__ import annotations

import html
import json
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.request import urlopen

import pytest
from command_line import Spangrade
from otlp_sessions import Said, write_sessions
from paths import SAMPLE
from serving import Served, serving

import spangrade as spangrade_api
from spangrade.evaluator.apps.server.pages.database import ViewedDatabase
from spangrade.evaluator.apps.server.pages.server import HOST
from spangrade.evaluator.derive import update
from spangrade.tracer.base.installation import to_install
from spangrade.tracer.base.sockets import listen
from spangrade.tracer.base.terminal import printable
from spangrade.tracer.files import read_otlp
from spangrade.tracer.store import Store


@pytest.fixture(scope="module")
def sample(tmp_path_factory: pytest.TempPathFactory) -> Path:
    db = tmp_path_factory.mktemp("view") / "sample.duckdb"
    spangrade_api.open(db).grade(SAMPLE)
    return db


@pytest.fixture(scope="module")
def served(sample: Path) -> Iterator[Served]:
    with serving(sample) as one:
        yield one


@pytest.mark.parametrize("path", ["/", "/session/conversation-1", "/runs", "/trends", "/tools"])
def test_a_page_is_served_with_a_policy_that_runs_no_inline_script(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 200
    policy = answer.headers["content-security-policy"]
    assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
    assert "unsafe" not in policy
    assert answer.headers["x-content-type-options"] == "nosniff"
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "localhost@evil.example:4319", "", "[::1", "10.0.0.1"]
)
def test_another_host_is_rejected(served: Served, host: str) -> None:
    answer = served.get("/", Host=host)
    assert (answer.status, "conversation" in answer.text) == (403, False)


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:4319", "127.0.0.1:1", "[::1]:4319"])
def test_the_names_of_this_machine_are_accepted(served: Served, host: str) -> None:
    assert served.get("/", Host=host).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "PATCH"])
def test_the_pages_change_nothing(served: Served, method: str) -> None:
    assert served.get("/", method=method).status == 405
    assert served.get("/session/conversation-1", method=method).status == 405


@pytest.mark.parametrize(
    "path",
    [
        "/nothing",
        "/run/none",
        "/run/none/rows",
        "/run/none/summary",
        "/suggestions/user",
        "/session/none",
        "/session/~!",
        "/session/~~00",
        "/static/../app.py",
        "/static/%2e%2e/app.py",
    ],
)
def test_what_does_not_exist_is_404(served: Served, path: str) -> None:
    answer = served.get(path)
    assert (answer.status, "content-security-policy" in answer.headers) == (404, True)


@pytest.mark.parametrize(
    "path",
    [
        "/sessions?sort=size",
        "/sessions?after=x",
        "/count?min_cost=x",
        "/runs?page=0",
        "/runs?page=x",
        "/trends?since=x",
    ],
)
def test_a_value_that_cannot_be_used_is_400_and_says_why(served: Served, path: str) -> None:
    answer = served.get(path)
    assert answer.status == 400
    assert re.search(r'<p( class="problem" role="alert")?>.*(expected|is not|damaged)', answer.text)


def test_a_run_and_the_filters_that_it_links_to_are_served(served: Served, sample: Path) -> None:
    (row,) = spangrade_api.open(sample).sql("SELECT run_id FROM runs").rows()
    run = served.get(f"/run/{row['run_id']}/summary")
    assert run.status == 200
    links = [html.unescape(link) for link in re.findall(r'href="(/sessions\?[^"]+)"', run.text)]
    assert links
    assert {served.get(link).status for link in links} == {200}
    assert served.get(f"/count?verdict=passed&run={row['run_id']}").text == "4 sessions"


@pytest.mark.exhaustive
def test_a_session_is_shown_with_a_run_by_its_name_or_id(tmp_path: Path) -> None:
    db = tmp_path / "s.duckdb"
    database = spangrade_api.open(db)
    database.grade(SAMPLE, name="strict", gates=["cost<=0.000001"])
    database.grade(SAMPLE, name="usual")
    (row,) = database.sql("SELECT run_id FROM runs WHERE name = 'strict'").rows()
    with serving(db) as served:
        pages = [served.get(f"/session/conversation-1?run={run}") for run in ("strict", row["run_id"])]
        assert pages[0].text == pages[1].text
        assert served.get("/session/conversation-1").text != pages[0].text
        assert served.get("/session/conversation-1?run=none").status == 400


@pytest.mark.exhaustive
def test_a_session_with_any_id_has_an_address(tmp_path: Path) -> None:
    ids = {
        "a/b",
        "..",
        ".",
        "a?b#c",
        "\u00e9\u202e",
        "~x",
        "~~" + "0" * 64,
        "%2e%2e",
        "x" * 5_000,
        "<b>",
        "a\x00b",
        "\\..\\",
    }
    db = record(tmp_path, *ids)
    titles = set()
    with serving(db) as served:
        for address in re.findall(r'<a class="row recorded" href="([^"]+)"', served.get("/sessions").text):
            assert re.fullmatch(r"/session/[A-Za-z0-9_~.:-]{1,1500}", address)
            page = served.get(address)
            assert page.status == 200
            title = html.unescape(re.search(r"<title>(.*?) · spangrade</title>", page.text, re.DOTALL)[1])
            titles.add(title[:200])
    assert titles == {printable(session_id)[:200] for session_id in ids}


def test_pages_are_read_while_another_process_writes(tmp_path: Path) -> None:
    db = record(tmp_path, "first")
    with serving(db) as served:
        assert listed_in(served) == {"first"}
        adding = "import sys, spangrade; spangrade.open(sys.argv[1]).import_files(sys.argv[2])"
        subprocess.run([sys.executable, "-c", adding, db, SAMPLE / "spans.otlp.jsonl"], check=True)
        assert listed_in(served) == {"first", *(f"conversation-{number}" for number in (1, 2, 3, 4))}


def test_lists_have_the_sessions_that_were_selected(tmp_path: Path) -> None:
    db = record(tmp_path, "first")
    spangrade_api.open(db).import_files(SAMPLE / "spans.otlp.jsonl")
    selected = spangrade_api.Selection(where="session_id LIKE 'conversation-%' AND turns > 1", origin="any")
    with serving(ViewedDatabase(db, select=selected)) as served:
        chosen = listed_in(served)
        assert chosen == {
            one["session_id"] for one in spangrade_api.open(db).list_sessions(origin="any", select=selected)
        }
        assert served.get("/count?origin=any").text == f"{len(chosen)} sessions"
    assert "first" not in chosen


def test_new_spans_are_derived_after_the_page_that_saw_them(tmp_path: Path) -> None:
    db = record(tmp_path, "first")
    database = ViewedDatabase(db)
    database.prepare()
    with Store.open(db) as store:
        for line in (SAMPLE / "spans.otlp.jsonl").read_text().splitlines():
            store.add(read_otlp(json.loads(line)))
    with database.reading() as store:
        assert store.query("SELECT session_id FROM sessions") == [("first",)]
    database._deriving.join()
    with database.reading() as store:
        assert store.query("SELECT count(*) FROM sessions") == [(5,)]
    assert database.notice == ""
    database.stop()


@pytest.mark.exhaustive
def test_a_notice_of_a_process_that_held_the_database_goes_with_the_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("spangrade.evaluator.apps.server.pages.database.WAIT_S", 0.1)
    db = record(tmp_path, "first")
    database = ViewedDatabase(db)
    with Store.open(db) as store:
        for line in (SAMPLE / "spans.otlp.jsonl").read_text().splitlines():
            store.add(read_otlp(json.loads(line)))
    with another_process_reading(db):  # readers may share the file, who derives needs it alone
        database.prepare()
        assert database.notice.startswith("New spans are not derived: ")
        assert "another process" in database.notice
    with database.reading():
        assert database.notice == "New spans are being derived."
    database._deriving.join()
    database.stop()
    assert (database.notice, len(spangrade_api.open(db))) == ("", 5)


@contextmanager
def another_process_reading(db: Path) -> Iterator[None]:
    holding = (
        "import sys, duckdb; c = duckdb.connect(sys.argv[1], read_only=True); "
        "print('open', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", holding, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "open\n"
        yield
        process.communicate("\n")


def test_a_database_that_another_process_holds_is_503(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    db = record(tmp_path, "first")
    monkeypatch.setattr("spangrade.evaluator.apps.server.pages.database.WAIT_S", 0.1)
    holding = (
        "import sys, duckdb; c = duckdb.connect(sys.argv[1]); print('open', flush=True); sys.stdin.read()"
    )
    with serving(db) as served:
        process = subprocess.Popen(
            [sys.executable, "-c", holding, db], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        with process:
            assert process.stdout.readline() == "open\n"
            answer = served.get("/sessions")
            process.communicate("\n")
        assert (answer.status, answer.headers["retry-after"]) == (503, "1")
        assert "another process has this database open" in answer.text
        assert served.get("/sessions").status == 200


def test_view_needs_its_extra(spangrade: Spangrade, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("evaluator.apps.server.pages.server", "tracer.base.http_server"):
        monkeypatch.delitem(sys.modules, f"spangrade.{name}", raising=False)
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    done = spangrade("view")
    assert (done.code, done.err) == (
        2,
        [f"spangrade: view needs uvicorn: {to_install('view')}"],
    )


def test_view_says_what_is_wrong_in_one_line(spangrade: Spangrade, tmp_path: Path) -> None:
    done = spangrade("view", "--db", tmp_path / "none.duckdb", "--port", "0")
    assert (done.code, len(done.err)) == (2, 1)
    assert "no such database" in done.err[0]
    with listen(HOST, 0) as taken:
        port = taken.getsockname()[1]
        done = spangrade("view", "--db", record(tmp_path, "one"), "--port", str(port))
    assert (done.code, done.err) == (
        2,
        [f"spangrade: 127.0.0.1:{port}: cannot listen: Address already in use; name another --port"],
    )


@pytest.mark.exhaustive
def test_view_serves_until_it_is_interrupted(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "spangrade", "view", "--db", record(tmp_path, "one"), "--port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    with process:
        address = re.search(r"at (http://127\.0\.0\.1:\d+/)", process.stderr.readline())[1]
        with urlopen(address) as answer:  # noqa: S310 (ours)
            assert b"one" in answer.read()
        process.send_signal(signal.SIGINT)
        assert process.wait(30) == 0
        assert re.fullmatch(r"\S+ \S+ INFO stopped\n", process.stderr.read())


def test_no_command_but_view_imports_the_server() -> None:
    program = (
        "import sys, spangrade.evaluator.database; from spangrade.evaluator.cli.app import COMMANDS, load; "
        "all(map(load, COMMANDS)); "
        "print(sorted({'starlette', 'uvicorn', 'jinja2'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def record(folder: Path, *session_ids: str) -> Path:
    """Return a new database of sessions with these ids."""
    db = folder / "recorded.duckdb"
    spans = write_sessions(
        folder / "spans.jsonl", [(one, [Said("Where is my order?")]) for one in session_ids]
    )
    spangrade_api.open(db).import_files(spans)
    return db


def listed_in(served: Served) -> set[str]:
    return set(re.findall(r'<a class="row recorded" href="/session/([^"]+)"', served.get("/sessions").text))


def test_a_notice_goes_when_another_process_has_derived_the_new_spans(tmp_path: Path) -> None:
    db = record(tmp_path, "first")
    database = ViewedDatabase(db)
    with Store.open(db) as store:
        for line in (SAMPLE / "spans.otlp.jsonl").read_text().splitlines():
            store.add(read_otlp(json.loads(line)))
    database.notice = "New spans are not derived: another process has the database open"
    with Store.open(db) as store:
        update(store)
    with database.reading():
        pass
    assert database.notice == ""
    database.stop()
