"""The first day with an agent: init, run without options, what flipped, --failed, --accept, demo, doctor."""

from __future__ import annotations

import io
import json
import shlex
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from command_line import run
from served_agents import json_answer, served

import spangrade

AGENT = """\
from pathlib import Path

def answer(text):
    return f"Order {text.split()[-1]} is {'lost' if Path('broken').exists() else 'shipped'}."
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder with an agent and nothing else, in which commands run."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "agent.py").write_text(AGENT)
    return tmp_path


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch):
    """Return a function that says what a user types."""

    def type_(*lines: str) -> None:
        monkeypatch.setattr("sys.stdin", io.StringIO("".join(f"{line}\n" for line in lines)))

    return type_


def begun(typed, *texts: str) -> None:
    """Begin with an agent and questions: the user takes each reply as what is expected."""
    typed(*texts, *("" for _ in texts), *("y" for _ in texts))
    assert run("init", "agent.py:answer").code == 0


@pytest.mark.exhaustive
def test_init_writes_what_run_needs_and_never_overwrites(folder, typed):
    begun(typed, "Where is A1", "Where is A2")
    golden = json.loads((folder / "golden.json").read_text())["golden_questions"]
    assert golden == [
        {
            "id": f"where-is-a{number}",
            "user_inputs": [f"Where is A{number}"],
            "reference_data": {"required_texts": [f"Order A{number} is shipped."]},
            "reviewed": False,
        }
        for number in (1, 2)
    ]
    assert (folder / "spangrade.toml").read_text() == (
        '[run]\nagent = "agent.py:answer"\ndataset = "golden.json"\n\n'
        '[options.compare]  # the condition on two runs\nfail_if = ["regressed > 0"]\n'
    )
    workflow = folder / ".github/workflows/spangrade.yml"
    assert "agent: agent.py:answer" in workflow.read_text()
    assert "fail-if: regressed > 0" in workflow.read_text()
    done = run("run")
    assert (done.code, done.out) == (
        0,
        [
            "2 sessions: 2 passed",
            (
                "also: compared with nothing: no earlier run of these questions; "
                "2 of 2 questions nobody has reviewed"
            ),
        ],
    )
    before = (folder / "spangrade.toml").read_bytes(), workflow.read_bytes()
    typed("", "y")
    again = run("init", "agent.py:answer", "--ask", "Where is A3")
    assert again.code == 0
    assert before == ((folder / "spangrade.toml").read_bytes(), workflow.read_bytes())
    assert len(json.loads((folder / "golden.json").read_text())["golden_questions"]) == 3


@pytest.mark.exhaustive
def test_the_gate_of_an_agent_that_answers_in_two_ways_is_worse(folder, typed):
    (folder / "agent.py").write_text(
        "import itertools\nNUMBERS = itertools.count()\n"
        "def answer(text):\n    return f'answer {next(NUMBERS)}'\n"
    )
    begun(typed, "Where is A1", "Where is A2")
    assert 'fail_if = ["worse"]' in (folder / "spangrade.toml").read_text()
    assert "fail-if: worse" in (folder / ".github/workflows/spangrade.yml").read_text()
    assert run("run", "--name", "first").code == run("run", "--name", "second").code == 1
    compared = json.loads("\n".join(run("compare", "first", "second", "--format", "json").out))
    assert [one["condition"] for one in compared["conditions"]] == ["worse"]


@pytest.mark.exhaustive
def test_a_change_is_red_with_its_cause_and_green_again(folder, typed):
    begun(typed, "Where is A1", "Where is A2")
    assert run("run").code == 0
    (folder / "broken").touch()
    red = run("run", "--question", "where-is-a1")
    assert red.code == 1
    name = red.out[1].removeprefix("against ").partition(":")[0]
    assert name.startswith("agent")
    assert red.out[:5] == [
        "1 session: 1 failed",
        f"{red.out[1].partition(': ')[0]}: 1 regressed, 0 fixed",
        'failed where-is-a1: required_texts: no reply has "Order A1 is shipped."',
        "  - agent: Order A1 is shipped.",
        "  + agent: Order A1 is lost.",
    ]
    assert red.out[-2] == "exit code 1: a session failed"
    (folder / "broken").unlink()
    green = run("run", "--failed")
    assert (green.code, green.out[0]) == (0, "1 session: 1 passed")
    assert green.out[2] == "also: fixed where-is-a1; 1 of 1 question nobody has reviewed"
    nothing = run("run", "--failed")
    assert (nothing.code, len(nothing.err)) == (2, 1)
    assert "no question of" in nothing.err[0]


def test_a_question_that_is_not_there_is_named_with_those_that_are(folder, typed):
    begun(typed, "Where is A1", "Where is A2")
    done = run("run", "--question", "where-is-a3")
    problem = "spangrade: --question: no golden question 'where-is-a3'; did you mean 'where-is-a2'?"
    assert (done.code, done.err) == (2, [problem])
    done = run("run", "--question", "s1=where-is-a1")
    assert "the question that a session answers is --answers s1=where-is-a1" in done.err[0]


@pytest.mark.exhaustive
def test_accept_shows_the_difference_of_the_golden_file_and_writes_it_if_it_is_confirmed(folder, typed):
    begun(typed, "Where is A1", "Where is A2")
    golden = (folder / "golden.json").read_text()
    (folder / "broken").touch()
    typed("n")
    refused = run("run", "--accept")
    assert (refused.code, (folder / "golden.json").read_text()) == (1, golden)
    typed("y")
    accepted = run("run", "--accept")
    assert accepted.code == 0
    assert any(line.startswith("+ ") and "Order A1 is lost." in line for line in accepted.out)
    assert run("run").code == 0


@pytest.mark.exhaustive
def test_a_version_that_is_not_declared_is_inferred_and_marked_as_such(folder, typed):
    begun(typed, "Where is A1", "Where is A2")
    run("run")
    with spangrade.open() as db:
        (row,) = db.list_runs().rows()
        assert row["name"] == json.loads(row["tags"])["inferred_version"]
        assert {one.agent_version for one in db} == {None}


class _Server(BaseHTTPRequestHandler):
    """A server that has its own form of a request and an answer."""

    def do_POST(self) -> None:
        """Answer what was asked."""
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        answer = json.dumps({"data": [{"reply": f"{asked['q']} ({asked['n']})"}]}).encode()
        self.send_response(200)
        self.send_header("content-type", "application/json")
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *_: object) -> None:
        """Log nothing."""


@pytest.mark.exhaustive
def test_a_server_stays_as_it_is(folder):
    server = HTTPServer(("127.0.0.1", 0), _Server)
    Thread(target=server.serve_forever, daemon=True).start()
    quoted = 'say "hi" \\ to {text}'
    question = {"id": "q", "user_inputs": [quoted], "required_texts": [f"{quoted} (1)"]}
    (folder / "golden.json").write_text(json.dumps(question))
    url = f"http://127.0.0.1:{server.server_port}/ask"
    command = ["run", "golden.json", "--http", url, "--http-body", '{"q": "{text}", "n": "{turn}"}']
    try:
        done = run(*command, "--http-reply", "$.data[0].reply")
        missing = run(*command, "--http-reply", "$.answer")
    finally:
        server.shutdown()
        server.server_close()
    assert (done.code, done.out[0]) == (0, "1 session: 1 passed")
    assert 'expected $.answer, found no "answer" at $; it has "data"' in missing.out[2]
    for option, value, problem in (
        ("--http-body", '{"q": 1}', "http_body: expected {text} in it, where the user's message goes"),
        (
            "--http-reply",
            "data.reply",
            "http_reply: expected a path such as $.data.reply or $.choices[0].text",
        ),
    ):
        refused = run("run", "golden.json", "--http", url, option, value)
        assert (refused.code, len(refused.err)) == (2, 1)
        assert problem in refused.err[0]


@pytest.mark.exhaustive
def test_the_command_that_asks_a_server_again_is_whole(folder):
    def echo(_path, _headers, body):
        return json_answer({"data": [{"reply": f"{body['q']} {(folder / 'said').read_text()}"}]})

    question = {"id": "a 1", "user_inputs": ["Hi"], "required_texts": ["Hi yes"]}
    (folder / "golden.json").write_text(json.dumps(question))
    options = ["--http-body", '{"q": "{text}", "it\'s": 1}', "--http-reply", "$.data[0].reply"]
    with served(echo) as url:
        command = ["run", "golden.json", "--http", f"{url}/ask", *options]
        (folder / "said").write_text("no")
        failed = run(*command)
        assert (failed.code, failed.out[0]) == (1, "1 session: 1 failed")
        (again,) = [
            one
            for one in failed.out[-1].removeprefix("next: ").split(" \N{MIDDLE DOT} ")
            if one.endswith(" --failed")
        ]
        words = shlex.split(again)
        assert words[:2] == ["spangrade", "run"]
        assert {*command} < {*words}
        (folder / "said").write_text("yes")
        green = run(*words[1:])
        assert (green.code, green.out[0]) == (0, "1 session: 1 passed")


@pytest.mark.exhaustive
def test_the_doctor_says_what_is_there_and_how_to_get_the_rest(folder):
    found = json.loads("\n".join(run("doctor", "--format", "json").out))
    by_name = {one["what"]: one for one in found["checked"]}
    assert by_name["database"]["state"] == "spangrade.duckdb: not there yet"
    assert by_name["settings"]["advice"] == "spangrade init AGENT writes them"
    run("demo", "shown", "--no-open")
    checked = {
        one["what"]: one["state"]
        for one in json.loads(
            "\n".join(run("doctor", "--db", "shown/spangrade.duckdb", "--format", "json").out)
        )["checked"]
    }
    assert "4 sessions, 2 runs" in checked["database"]
    assert checked["clock"] == "no span is from the future"
    assert (folder / "shown/page/index.html").exists()
