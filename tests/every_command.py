"""Each command of the command line with arguments that let it do its work, in a folder with what it needs.

A test that is about all commands goes through these: `test_every_command_is_here` fails for one that is not.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple, Self

from command_line import run
from made_once import copy_of, copy_of_sample, made_once
from paths import RECORDED, SAMPLE

AGENT = """
import spangrade

def answer(text):
    with spangrade.agent("echo"):
        return text
"""
GATE = ("--metric", "token_usage<=1000000")
# They ask a user, or start commands that are tested here: tests/evaluator/cli/test_first_day.py.
WITH_OTHERS = {("init",), ("demo",)}
LAKE = ("--lake", "postgres:dbname=none host=127.0.0.1 port=1")
COMMANDS: Mapping[tuple[str, ...], Sequence[str]] = {
    ("doctor",): (),
    ("import",): ("more.jsonl",),
    ("grade",): ("golden.json", "--out", "out"),
    ("run",): ("agent.py:answer", "asked.json"),
    ("sessions",): ("--all",),
    ("show",): ("conversation-1",),
    ("runs",): (),
    ("compare",): ("first", "second", "--out", "out"),
    ("audit",): ("golden.json", "--out", "out"),
    ("trend",): ("tool_success_rate",),
    ("view",): ("--export", "pages"),
    ("label",): ("conversation-1", "pass", "--by", "ines"),
    ("lint",): (),
    ("sql",): ("SELECT session_id, r FROM sessions, range(100) a(r)",),
    ("delete",): ("--session", "conversation-1"),
    ("convert",): ("promptfoo.json", "--output", "converted.json"),
    ("mcp",): ("--instructions",),
    ("serve", "serve"): ("--http-port", "PORT", "--grpc-port", "0", "--port", "0"),
    ("serve", "keys", "create"): ("ines", "--role", "review"),
    ("serve", "keys", "list"): (),
    ("serve", "keys", "revoke"): ("ben",),
    ("serve", "alerts"): ("--data", "served"),
    ("serve", "backup"): ("copy", "--data", "served"),
    ("serve", "restore"): ("served", "--data", "restored"),
    ("judge",): ("token_usage",),
    ("lake", "update"): (*LAKE, "--landing", "landing"),
    ("lake", "import"): ("s.duckdb", *LAKE),
    ("lake", "derive"): LAKE,
    ("lake", "compact"): LAKE,
    ("lake", "delete"): (*LAKE, "--session", "conversation-1"),
    ("lake", "status"): LAKE,
}


def leaves(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with its words."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from leaves(command.get_command(None, name), (*path, name))
    else:
        yield path, command


def takes_database(command: Any) -> bool:
    """Return whether a command has the option `--db`."""
    return any(parameter.name == "db" for parameter in command.params)


def graded(path: Path) -> None:
    """Make a database of the sample's sessions with two runs, a score and a label."""
    copy_of_sample(path)
    for name in ("first", "second"):
        golden = SAMPLE / "customer_service_golden.json"
        assert run("grade", golden, "--db", path, "--run", name, "--tag", "a=b", *GATE).code == 0
    run("label", "conversation-1", "--score", "thumbs=1", "--db", path)
    for of in ((), ("--metric", "token_usage")):
        run("label", "conversation-1", "pass", "--by", "ines", *of, "--db", path)


def fill(folder: Path) -> Path:
    """Put what the commands need into a folder; return it."""
    copy_of(made_once("graded", graded), folder / "s.duckdb")
    (folder / "served").mkdir(exist_ok=True)
    copy_of(made_once("graded", graded), folder / "served" / "spangrade.duckdb")
    run("serve", "keys", "create", "ben", "--role", "read", "--data", folder)
    shutil.copy(SAMPLE / "customer_service_golden.json", folder / "golden.json")
    shutil.copy(RECORDED / "adk.otlp.jsonl", folder / "more.jsonl")
    (folder / "agent.py").write_text(AGENT)
    question = {"id": "q", "user_inputs": ["hello"], "agents_evaluated": ["echo"], "reference_data": {}}
    (folder / "asked.json").write_text(json.dumps({"golden_questions": [question]}))
    tests = [{"vars": {"text": "hello"}, "assert": [{"type": "contains", "value": "hi"}]}]
    (folder / "promptfoo.json").write_text(json.dumps({"prompts": ["{{text}}"], "tests": tests}))
    (folder / "samples.jsonl").write_text(json.dumps({"id": "a", "input": "hello", "target": "hi"}))
    (folder / "goldens.json").write_text(json.dumps([{"input": "hello", "expected_output": "hi"}]))
    (folder / "log.json").write_text(json.dumps([{"query": "hello", "reference": "hi"}]))
    return folder


def arguments(words: tuple[str, ...], command: Any, port: str) -> list[str]:
    """Return a command's words and arguments; `port` is one that is in use, so that no server goes on."""
    given = [port if one == "PORT" else one for one in COMMANDS[words]]
    return [*words, *given, *(("--db", "s.duckdb") if takes_database(command) else ())]


class Ended(NamedTuple):
    """How a command ended: exit code or minus a signal, what it printed, its calls, whether Ctrl-C came."""

    code: int
    out: str
    err: str
    calls: int
    pressed: bool


class Forked:
    """Processes of commands, forked from one that has imported them: a start of Python takes 0.7 s of CPU."""

    def __init__(self) -> None:
        self._server = subprocess.Popen(
            [sys.executable, __file__], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stdin.close()
        self._server.wait()
        self._server.stdout.close()

    def run(self, words: Sequence[str], folder: Path, *, closed: bool = False, at: int | str = 0) -> Ended:
        """Run a command in a folder.

        `closed`: nobody reads what it prints. `at`: Ctrl-C comes at that call of a Python function, or at the
        first call of a function of that name.
        """
        request = {"words": list(words), "folder": str(folder), "closed": closed, "at": at}
        print(json.dumps(request), file=self._server.stdin, flush=True)
        return Ended(*json.loads(self._server.stdout.readline()))


def _serve() -> None:
    """Fork a process for each command that is asked for, and print how it ended."""
    from typer.main import get_command

    from spangrade.evaluator.cli import run as run_command
    from spangrade.evaluator.cli.app import app

    dict(leaves(get_command(app)))
    for line in sys.stdin:
        request = json.loads(line)
        folder = Path(request["folder"])
        child = os.fork()
        if child == 0:
            os.chdir(folder)
            _redirect(closed=request["closed"])
            sys.argv = ["spangrade", *request["words"]]
            if request["at"]:
                sys.setprofile(_interrupting(request["at"]))
            run_command()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        printed = [Path(folder, name).read_text(errors="replace") for name in ("out.txt", "err.txt")]
        counted = json.loads(Path(folder, "calls.txt").read_text() or "[0, false]")
        print(json.dumps([os.waitstatus_to_exitcode(status), *printed, *counted]), flush=True)


def _redirect(*, closed: bool) -> None:
    """Give this process outputs of its own; with `closed`, standard output is a pipe that nobody reads."""
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for name in ("out.txt", "err.txt", "calls.txt"):
        os.close(os.open(name, flags))
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(os.open("err.txt", flags), 2)
    if closed:
        reader, writer = os.pipe()
        os.close(reader)
        os.dup2(writer, 1)
    else:
        os.dup2(os.open("out.txt", flags), 1)


def _interrupting(at: int | str) -> Callable[..., None]:
    """Return a profiler that presses Ctrl-C once, and counts the calls of Python functions until the end."""
    calls = 0
    pressed = False

    def count() -> None:
        sys.setprofile(None)
        Path("calls.txt").write_text(json.dumps([calls, pressed]))

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls, pressed
        calls += event == "call"
        name = frame.f_code.co_name if event == "call" else getattr(argument, "__name__", "")
        if not pressed and (calls == at or (event in ("call", "c_call") and name == at)):
            pressed = True
            os.kill(os.getpid(), signal.SIGINT)

    atexit.register(count)
    return profile


if __name__ == "__main__":
    _serve()
