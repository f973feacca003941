"""Every module can be imported where a system, or an installation, lacks what it may lack."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from urllib.request import urlopen

import pytest
from paths import ROOT

POSIX = ("fcntl", "grp", "pwd", "resource", "termios", "tty")
# What extras bring, and each is missing somewhere.
EXTRAS = (
    "anthropic",
    "google.genai",
    "grpc",
    "markdown_it",
    "mcp",
    "nh3",
    "numpy",
    "openai",
    "opentelemetry.exporter.otlp.proto.grpc",
    "prometheus_client",
    "scipy",
    "starlette",
    "uvicorn",
)
# What stands beside the core, and needs some of them at once.
APPS = ("spangrade.evaluator.apps.", "spangrade.tracer.receiver.", "spangrade.tracer.base.http_server")

IMPORT_ALL = """
import importlib, json, pkgutil, sys

hidden = set(sys.argv[1].split(","))

class Hide:
    def find_spec(self, name, path=None, target=None):
        if any(name == one or name.startswith(one + ".") for one in hidden):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

for name in hidden:
    sys.modules.pop(name, None)
sys.meta_path.insert(0, Hide())
import spangrade
failed = {}
for module in pkgutil.walk_packages(spangrade.__path__, "spangrade."):
    if module.name != "spangrade.__main__":
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            failed[module.name] = error.name
print(json.dumps(failed))
"""


def failed(*hidden: str) -> dict[str, str]:
    """Return the modules that cannot be imported, each with what it lacks."""
    done = subprocess.run(
        [sys.executable, "-c", IMPORT_ALL, ",".join(hidden)], capture_output=True, text=True, check=True
    )
    found: dict[str, str] = json.loads(done.stdout)
    return found


def test_no_module_needs_what_only_posix_has_and_none_of_the_core_what_an_extra_brings() -> None:
    found = failed(*POSIX, *EXTRAS)
    assert set(found.values()) <= set(EXTRAS)
    assert [name for name in found if not name.startswith(APPS)] == []
    assert "spangrade.tracer.receiver.http" in found  # it hides them indeed


@pytest.mark.exhaustive
@pytest.mark.parametrize("hidden", EXTRAS)
def test_what_needs_an_extra_says_which_package(hidden: str) -> None:
    found = failed(hidden)
    assert {one for one in found.values() if one != hidden and not one.startswith(f"{hidden}.")} == set()
    assert [name for name in found if not name.startswith(APPS)] == []


README = (ROOT / "README.md").read_text(encoding="utf-8").partition("## The first verdict")[2]
FILES = dict(re.findall(r"^cat > (\S+) <<'END'\n(.*?)^END$", README, re.DOTALL | re.MULTILINE))
TEST = """
from agent import answer
from spangrade.evaluator.conversation_runner import ConversationRunner
from spangrade.evaluator.turn import AgentTurn, UserTurn

async def test_it_answers():
    turns = [UserTurn("Where is order A1?"), AgentTurn("*")]
    await ConversationRunner(answer, turns).run()
"""
# What a console or a shell may have set, and a folder, which in ASCII alone must be in ASCII.
SURROUNDINGS = {
    "PYTHONUTF8=0": ("Plätze", {"PYTHONUTF8": "0"}),
    "cp1252": ("Plätze", {"PYTHONUTF8": "0", "PYTHONIOENCODING": "cp1252"}),
    "LANG=C": ("Plätze", {"LANG": "C", "LC_ALL": "C"}),
    "ASCII": ("places", {"LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}),
}


# Names of questions, and so of sessions, that are no names of files on Windows.
NAMES = ("a:1?", "con", 'say "hi"', "ends in a dot.", "1/2", "*")


class Elsewhere:
    """Commands in a folder, each in a process without what only POSIX has."""

    def __init__(self, folder: Path, variables: Mapping[str, str]) -> None:
        self.folder = folder
        self.forbidden = folder.with_name("forbidden.txt")
        self.forbidden.touch()
        for name, text in {**FILES, "test_agent.py": TEST}.items():
            (folder / name).write_text(text, encoding="utf-8")
        self.environment = {
            **{k: v for k, v in os.environ.items() if k not in ("LANG", "PYTHONUTF8")},
            "PYTHONPATH": str(Path(__file__).with_name("without_posix")),
            "WITHOUT_POSIX": str(self.forbidden),
            "WITHOUT_POSIX_BELOW": f"{folder}/",
            **variables,
        }

    def run(self, *command: object) -> tuple[int, str]:
        """Run a module of Python and return its exit code and what it printed."""
        done = subprocess.run(
            [sys.executable, "-m", *map(str, command)],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            timeout=120,
            check=False,
        )
        printed = (done.stdout + done.stderr).decode("cp1252", errors="replace")
        assert "defect of spangrade" not in printed, printed
        assert "Traceback" not in printed, printed
        return done.returncode, printed

    def page(self) -> str:
        """Return the list of sessions of `spangrade view`."""
        command = [sys.executable, "-m", "spangrade", "view", "--port", "0"]
        with subprocess.Popen(
            command, cwd=self.folder, env=self.environment, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                address = re.search(r"http://127\.0\.0\.1:\d+/", process.stderr.readline())  # type: ignore[union-attr]
                assert address is not None
                with urlopen(f"{address[0]}sessions") as answer:  # noqa: S310 (ours)
                    return str(answer.read().decode("utf-8"))
            finally:
                process.terminate()


@pytest.fixture(params=SURROUNDINGS.values(), ids=SURROUNDINGS)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Elsewhere:
    name, variables = request.param
    (folder := tmp_path / name).mkdir()
    return Elsewhere(folder, variables)


@pytest.mark.exhaustive
def test_the_steps_of_the_readme_are_played_without_posix(elsewhere: Elsewhere) -> None:
    run, folder = elsewhere.run, elsewhere.folder
    assert run("spangrade", "run", "agent.py:answer", "golden.json", "--name", "first")[0] == 1
    changed = FILES["agent.py"].replace("on its way", "shipped – “naïve” 订单")
    (folder / "agent.py").write_text(changed, encoding="utf-8")
    code, printed = run("spangrade", "run", "agent.py:answer", "golden.json", "--name", "second")
    assert (code, "1 session: 1 passed" in printed, "1 fixed" in printed) == (0, True, True)
    assert run("spangrade", "compare", "first", "second", "--fail-if", "regressed > 0")[0] == 0
    sample = ROOT / "datasets/customer_service"
    code, printed = run("spangrade", "grade", sample, "--db", "sample.duckdb", "--out", "report")
    assert (code, "4 sessions: 4 passed" in printed) == (0, True)
    assert (folder / "report/report.html").stat().st_size > 10_000
    spans = sample / "spans.otlp.jsonl"
    assert run("spangrade", "import", spans, "--db", "more.duckdb")[0] == 0
    assert "4 " in run("spangrade", "import", spans, spans, "--db", "more.duckdb")[1]
    code, printed = run("spangrade", "sessions", "--format", "json")
    (folder / "sessions.json").write_text(printed, encoding="utf-8")
    session_id = json.loads(printed)[0]["session_id"]
    assert run("spangrade", "show", session_id)[0] == 0
    questions = [
        {"id": name, "user_inputs": f"Where is {name}", "required_texts": ["naïve"]} for name in NAMES
    ]
    (folder / "names.json").write_text(json.dumps(questions), encoding="utf-8")
    assert (
        run("spangrade", "run", "agent.py:answer", "names.json", "--name", "a:b/c@d", "--out", "named")[0]
        == 0
    )
    assert run("spangrade", "view", "--export", "pages")[0] == 0
    assert session_id in elsewhere.page()
    code, printed = run("pytest", "-p", "no:cacheprovider", "-o", "asyncio_mode=auto", "test_agent.py")
    assert (code, "1 passed" in printed) == (0, True)
    assert elsewhere.forbidden.read_text() == ""


def test_what_needs_posix_refuses_in_one_line_where_it_is_not(tmp_path: Path) -> None:
    elsewhere = Elsewhere(tmp_path, {})
    said = "spangrade: serve is ended and reloaded by signals of POSIX, which this system does not have\n"
    for part in ((), ("--only", "receive")):
        assert elsewhere.run("spangrade", "serve", *part, "--port", "0") == (2, said)
