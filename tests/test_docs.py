"""README and docs: Python blocks run in order, SQL runs on a real database, commands exist."""

from __future__ import annotations

import inspect
import json
import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import pytest
from builders import session, tool
from command_line import spangrade
from grading import grade
from paths import ROOT, SAMPLE

from spangrade import Database, list_metrics
from spangrade.converters.datasets.golden import load_golden, question_problems
from spangrade.evaluator.cli.app import COMMANDS
from spangrade.evaluator.grading.settings import ProjectSettings

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
TOUR = ROOT / "docs" / "tour.md"
SQL = ROOT / "docs" / "sql.md"
FOLDERS = ("tracer", "converters", "evaluator")
ARCHITECTURE = ROOT / "docs" / "architecture.md"


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def add_files_of_the_tour(folder: Path) -> None:
    """Write golden.json and spans.otlp.jsonl, the files that the tour's blocks read."""
    (golden,) = blocks(TOUR, "json")
    (folder / "golden.json").write_text(golden, encoding="utf-8")
    spans = (SAMPLE / "spans.otlp.jsonl").read_text(encoding="utf-8")
    (folder / "spans.otlp.jsonl").write_text(spans.replace('"conversation-', '"sample-'), encoding="utf-8")


@pytest.mark.parametrize("language", ["json", "yaml", "csv"])
def test_the_golden_file_in_one_minute_is_graded_in_each_form(tmp_path: Path, language: str) -> None:
    file = tmp_path / "golden"
    file.write_text(blocks(ROOT / "docs" / "datasets.md", language)[0], encoding="utf-8")
    dataset = load_golden(file)
    turns = [("Hi", []), ("Cancel order A2", [tool("cancel", {"order_id": "A2"})])]
    where = session([("Where is order A1?", [])])
    shipped = replace(where, turns=(where.turns[0]._replace(final_response="It is SHIPPED."),))
    silent = replace(where, turns=(where.turns[0]._replace(final_response="It is lost."),))
    other = session([*turns[:1], ("Cancel order A2", [tool("cancel", {"order_id": "A1"})])])
    graded = grade([shipped, silent, session(turns), other], dataset)
    assert [(one.question_id, str(one.verdict)) for one in graded] == [
        ("a1", "passed"),
        ("a1", "failed"),
        ("a2", "passed"),
        ("a2", "failed"),
    ]


def test_the_scenario_of_the_page_about_simulated_users_is_read() -> None:
    question = json.loads(blocks(ROOT / "docs" / "simulating.md", "json")[0])
    assert question_problems(question) == []


PRODUCTION = ROOT / "docs" / "production.md"
TUTORIAL = ROOT / "docs" / "tutorial.md"


# Runs each page in a fork of one process that has imported spangrade.
RUN_EACH = """
import os, runpy, sys
import spangrade

for name in spangrade.__all__:
    getattr(spangrade, name)
for folder in sys.argv[1:]:
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        for number, name in ((1, "out.txt"), (2, "err.txt")):
            os.dup2(os.open(name, os.O_WRONLY | os.O_CREAT), number)
        sys.argv = [f"{folder}/page.py"]
        sys.path[0] = folder
        runpy.run_path(sys.argv[0], run_name="__main__")
        break
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.mark.exhaustive
def test_the_python_blocks_of_each_page_run_in_order(tmp_path: Path) -> None:
    pages = [page for page in PAGES if blocks(page, "python") and page not in (PRODUCTION, TUTORIAL)]
    for page in pages:
        folder = tmp_path / page.stem
        folder.mkdir()
        (folder / "page.py").write_text("\n".join(blocks(page, "python")), encoding="utf-8")
        add_files_of_the_tour(folder)
    folders = [str(tmp_path / page.stem) for page in pages]
    done = subprocess.run([sys.executable, "-c", RUN_EACH, *folders], capture_output=True, text=True)
    codes = dict(zip((page.name for page in pages), done.stdout.split(), strict=True))
    errors = {page.name: (tmp_path / page.stem / "err.txt").read_text(encoding="utf-8") for page in pages}
    assert (set(codes.values()), "".join(errors.values()), done.stderr) == ({"0"}, "", ""), codes


@pytest.mark.exhaustive
def test_the_agent_of_the_tour_is_graded_by_its_dataset(tmp_path: Path) -> None:
    (tmp_path / "page.py").write_text(blocks(TOUR, "python")[0], encoding="utf-8")
    add_files_of_the_tour(tmp_path)
    gates = ("--metric", "tool_recall>=0.9", "--metric", "cost<=0.01")
    for passed in ("1 session: 1 passed", "2 sessions: 2 passed"):  # each run is a conversation of its own
        subprocess.run([sys.executable, "page.py"], check=True, cwd=tmp_path)
        done = spangrade("grade", "golden.json", "--db", "shop.duckdb", *gates, cwd=tmp_path)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, passed)


def test_the_readmes_first_command_passes_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = spangrade("grade", str(SAMPLE), cwd=tmp_path)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "4 sessions: 4 passed")


@pytest.mark.exhaustive
def test_the_eval_of_the_tour_passes_and_fails_another_agent(tmp_path: Path) -> None:
    page = "\n".join(blocks(TOUR, "python"))
    call = "import asyncio\nasyncio.run(test_where_is_my_order())\n"
    for name, text, code in (
        ("passes.py", page, 0),
        ("fails.py", page.replace('"shipped"}\n', '"lost"}\n'), 1),
    ):
        add_files_of_the_tour(tmp_path)
        (tmp_path / name).write_text(f"{text}\n{call}", encoding="utf-8")
        done = subprocess.run([sys.executable, name], capture_output=True, text=True, cwd=tmp_path)
        assert done.returncode == code, done.stderr


def test_the_queries_of_the_page_on_sql_run_on_the_sample(tmp_path: Path) -> None:
    graded = spangrade("grade", str(SAMPLE), cwd=tmp_path)
    assert (graded.returncode, graded.stdout.splitlines()[0]) == (0, "4 sessions: 4 passed")
    queries = blocks(SQL, "sql")
    assert len(queries) == 7
    answers = []
    for query in queries:
        done = spangrade("sql", query, "--format", "json", cwd=tmp_path)
        assert done.returncode == 0, done.stderr
        answers.append(json.loads(done.stdout))
    failing, costs, slowest, paths, failed, topics, verdicts = answers
    assert failing[0]["failed"] > 0
    assert failing[0]["an_error"]
    assert [row["model"] for row in costs] == ["gemini-2.5-flash"]
    assert slowest[0]["latency_s"] >= slowest[-1]["latency_s"]
    assert sum(row["sessions"] for row in paths) == 4
    assert failed == []
    assert [row["verdict"] for row in verdicts] == ["passed"]
    assert sum(row["sessions"] for row in topics) == 4


def run_block(block: str, cwd: Path, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a block of shell with bash, or in this process if it is one plain `spangrade` command."""
    if (
        re.fullmatch(r"spangrade [^|&;<>$#*()`]+", block.replace("\\\n", " ").strip())
        and block.count("spangrade ") == 1
    ):
        return spangrade(*shlex.split(block)[1:], cwd=cwd)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    command = ["bash", "-euc", block]
    return subprocess.run(command, capture_output=True, text=True, cwd=cwd, env={**environment, "PATH": path})


@pytest.mark.exhaustive
def test_the_page_on_production_runs_block_by_block(tmp_path: Path) -> None:
    add_files_of_the_tour(tmp_path)
    (settings,) = blocks(PRODUCTION, "toml")
    (tmp_path / "spangrade.toml").write_text(settings, encoding="utf-8")
    environment = {key: value for key, value in os.environ.items() if not key.startswith("SPANGRADE_")}
    text = PRODUCTION.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        if language == "python":
            command = [sys.executable, "-c", block]
            done = subprocess.run(command, capture_output=True, text=True, cwd=tmp_path, env=environment)
        else:
            done = run_block(block, tmp_path, environment)
        assert (done.returncode, done.stderr) == (0, ""), block


@pytest.mark.exhaustive
def test_the_tutorial_runs_as_it_says(tmp_path: Path) -> None:
    """A Python block is a file, named in its first line; the lines of a text block are printed."""
    environment = {
        key: value for key, value in os.environ.items() if not key.startswith(("OTEL_", "SPANGRADE_"))
    }
    environment["SPANGRADE"] = str(ROOT)
    printed = ""
    page = TUTORIAL.read_text(encoding="utf-8")
    for language, block in re.findall(r"^```(sh|python|text)\n(.*?)^```", page, re.DOTALL | re.MULTILINE):
        if language == "python":
            (tmp_path / block.split()[1]).write_text(block, encoding="utf-8")
        elif language == "sh":
            done = run_block(block, tmp_path, environment)
            assert done.returncode == 0, f"{block}{done.stdout}{done.stderr}"
            printed = done.stdout
        else:
            assert [line for line in block.splitlines() if line not in printed] == [], printed
    assert printed.endswith("exit code 1\n")


def test_the_commands_of_the_page_on_pages_run(tmp_path: Path) -> None:
    assert spangrade("grade", str(SAMPLE), "--db", "shop.duckdb", cwd=tmp_path).returncode == 0
    answer = spangrade("runs", "--db", "shop.duckdb", "--format", "json", cwd=tmp_path)
    run_id = json.loads(answer.stdout)[0]["run_id"]
    lines = [line for block in blocks(ROOT / "docs" / "view.md", "sh") for line in block.splitlines()]
    exports = [line for line in lines if "--export" in line]
    assert [line for line in lines if line not in exports] == [
        "pip install '.[view]' in its checkout",
        "spangrade view --db shop.duckdb",  # tests/evaluator/view/test_app.py serves
        "spangrade view --db shop.duckdb --allow-labels --as ann --golden golden.json",
    ]
    for line in exports:
        arguments = line.replace("3f2a", run_id[:8]).split()[1:]
        done = spangrade(*arguments, "--db", "shop.duckdb", cwd=tmp_path)
        assert (done.returncode, done.stdout) == (0, f"{arguments[2]}/index.html: 4 sessions\n"), done.stderr


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_commands_shown_exist(page: Path) -> None:
    shown = {
        word
        for block in blocks(page, "sh")
        for word in re.findall(r"^(?:\$ )?(?:uv run |\.venv/bin/)?spangrade (\w[\w-]*)", block, re.MULTILINE)
    }
    assert shown <= COMMANDS.keys()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


def test_the_functions_on_the_path_of_a_span_exist_in_the_modules_that_it_names() -> None:
    path = ARCHITECTURE.read_text(encoding="utf-8").partition("\n## Follow a span\n")[2]
    path = path.partition("\n## ")[0]
    named = {name.rpartition(".")[2] for name in re.findall(r"`([A-Za-z_.]+)`", path)}
    definitions = {
        file.relative_to(ROOT): set(re.findall(r"(?:def|class) (\w+)", file.read_text(encoding="utf-8")))
        for folder in FOLDERS
        for file in (ROOT / folder).rglob("*.py")
    }
    known = {file.stem for file in definitions} | {"py", "sql", "BatchSpanProcessor"}
    assert named - known.union(*definitions.values()) == set()
    for module, functions in re.findall(r"`([\w/]+\.py)`((?:,? `[\w.]+`)+)", path):
        of_it = set().union(*(names for file, names in definitions.items() if file.match(module)))
        for name in re.findall(r"`([\w.]+)`", functions):
            assert name.endswith(".py") or name.rpartition(".")[2] in of_it, (module, name)


PAGES_OF_THE_CODE = runpy.run_path(str(ROOT / "docs" / "write_pages.py"))["PAGES"]


@pytest.mark.parametrize("name", PAGES_OF_THE_CODE)
def test_the_pages_written_from_the_code_are_current(name: str) -> None:
    page = (ROOT / "docs" / name).read_text(encoding="utf-8")
    assert page == PAGES_OF_THE_CODE[name](), "run docs/write_pages.py"


def test_each_metric_says_when_it_is_inconclusive_and_where_its_formula_is_from() -> None:
    page = (ROOT / "docs" / "metric_reference.md").read_text(encoding="utf-8")
    sections = {section.partition("\n")[0]: section for section in page.split("\n## ")[1:]}
    assert set(sections) == {metric.name for metric in list_metrics()}
    words = ("nconclusive", "\nSource: ", "| range |")
    assert {name for name, text in sections.items() if not all(word in text for word in words)} == set()


def test_the_page_on_the_api_has_the_methods_of_a_database_with_their_parameters() -> None:
    listed = {}
    for name, text in re.findall(
        r"^\| `(\w+)\((.*?)\)` \|", (ROOT / "docs" / "api.md").read_text(), re.MULTILINE
    ):
        parameters = [one.partition("=")[0].strip() for one in text.replace("()", "").split(",")]
        listed[name] = [one for one in parameters if one]
    actual = {
        name: list(inspect.signature(method).parameters)[1:]
        for name, method in inspect.getmembers(Database, inspect.isfunction)
        if not name.startswith("_")
    }
    assert listed.keys() - {"to_json"} == actual.keys()
    for name, parameters in actual.items():
        if listed[name][-1:] == ["…"]:
            assert set(listed[name][:-1]) < set(parameters), name
        else:
            assert sorted(listed[name]) == sorted(parameters), name


def test_each_environment_variable_is_on_the_page_on_configuration() -> None:
    code = [path.read_text(encoding="utf-8") for folder in FOLDERS for path in (ROOT / folder).rglob("*.py")]
    read = {*re.findall(r"\bSPANGRADE_[A-Z_]+[A-Z]", "".join(code)), *ProjectSettings.variables.values()}
    page = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    assert len(read) > 20
    assert read == set(re.findall(r"\bSPANGRADE_[A-Z_]+[A-Z]", page))


def test_each_page_is_in_the_index_and_in_the_navigation_of_the_site() -> None:
    index = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8").partition("\nnav:\n")[2]
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    assert pages - {"index.md"} - set(re.findall(r"\]\(([\w-]+\.md)\)", index)) == set()
    assert pages - set(re.findall(r"[\w-]+\.md", navigation)) == set()
