"""README and docs: what is on them is read, exists and is current; test_pages.py runs every command."""

from __future__ import annotations

import inspect
import json
import re
import runpy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from builders import session, tool
from command_line import spangrade
from grading import grade
from paths import ROOT, SAMPLE
from typer.main import get_command

from spangrade import Database, list_metrics
from spangrade.converters.datasets.golden import load_golden, question_problems
from spangrade.evaluator.cli.app import COMMANDS, app
from spangrade.evaluator.settings import ProjectSettings

PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
NOTES = sorted((ROOT / "docs" / "notes").glob("*.md"))
SQL = ROOT / "docs" / "sql.md"
FOLDERS = ("tracer", "converters", "evaluator")


def blocks(page: Path, language: str) -> list[str]:
    text = page.read_text(encoding="utf-8")
    return re.findall(rf"^```{language}(?: title=.*?)?\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


# What commands write, and pages of others.
WRITTEN = {"summary.md", "comparison.md", "audit.md", "SKILL.md", "PAGE.md", "monocle_telemetry_schema.md"}


def test_every_page_that_another_names_is_there() -> None:
    files = {
        path.name
        for path in (
            *PAGES,
            *NOTES,
            *ROOT.glob("*/**/README.md"),
            *ROOT.glob("tests/cases/*.md"),
            *ROOT.glob("*.md"),
        )
    }
    named = {
        (page.name, name)
        for page in (*PAGES, *NOTES)
        for name in re.findall(r"\b\w+\.md\b", page.read_text(encoding="utf-8"))
    }
    assert {one for one in named if one[1] not in files | WRITTEN} == set()


@pytest.mark.parametrize("language", ["json", "yaml", "csv"])
def test_the_golden_file_in_one_minute_is_graded_in_each_form(tmp_path: Path, language: str) -> None:
    file = tmp_path / "golden"
    file.write_text(blocks(ROOT / "docs" / "golden_questions.md", language)[0], encoding="utf-8")
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
    question = json.loads(blocks(ROOT / "docs" / "running.md", "json")[1])[0]
    assert question_problems(question) == []


def test_the_readmes_first_command_passes_again(tmp_path: Path) -> None:
    for _ in range(2):
        done = spangrade("grade", str(SAMPLE), cwd=tmp_path)
        assert (done.returncode, done.stdout.splitlines()[0]) == (0, "4 sessions: 4 passed")


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


def options_of(command: Any) -> set[str]:
    """Return the names of the options of a command, and of those under it."""
    under = getattr(command, "commands", {}).values()
    return {name for one in command.params for name in one.opts}.union(*map(options_of, under))


# The plugin's of pytest, and those of other programs: uv, pip, pytest-repeat.
OTHER_OPTIONS = {"--help", "--extra", "--no-deps", "--count", "--spangrade-db", "--spangrade-run"} | {
    f"--judge-{name}" for name in ("max-calls", "max-cost", "votes", "threshold", "required")
}


@pytest.mark.parametrize("page", [PAGES[0], *PAGES[2:]], ids=lambda page: page.name)
def test_the_commands_and_options_that_a_page_names_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|\$ |^|-m |bin/)spangrade ([a-z][\w-]*)", text, re.MULTILINE))
    assert named <= COMMANDS.keys()
    options = set(re.findall(r"(?<![\w-])--[a-z][\w-]*", text))
    whole: Any = get_command(app)
    known = options_of(whole).union(*(options_of(whole.get_command(None, name)) for name in COMMANDS))
    assert options - known - OTHER_OPTIONS == set()


@pytest.mark.parametrize("page", [*PAGES, *NOTES], ids=lambda page: page.name)
def test_relative_links_lead_to_files(page: Path) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", page.read_text(encoding="utf-8"))
    assert [link for link in links if not (page.parent / link).exists()] == []


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
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8").partition("\n## Coding agents")[0]
    for name, text in re.findall(r"^\| `(\w+)\((.*?)\)` \|", page, re.MULTILINE):
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
    page = (ROOT / "docs" / "python.md").read_text(encoding="utf-8")
    assert len(read) > 20
    assert read == set(re.findall(r"\bSPANGRADE_[A-Z_]+[A-Z]", page))


def test_each_page_is_in_the_navigation_of_the_site_and_no_note_is() -> None:
    settings = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    pages = {path.name for path in (ROOT / "docs").glob("*.md")}
    listed = set(re.findall(r"[\w-]+\.md", settings.partition("\nnav:\n")[2]))
    assert listed - pages == {"index.md", "contributing.md", "security.md", "changelog.md"}
    assert pages - listed == set()
    assert "notes/" in settings


def test_few_concepts_stand_before_the_first_verdict_on_tools() -> None:
    """The words as a reader meets them, from README's first line to the tutorial's first red run."""
    known = json.loads((ROOT / "tests" / "cases" / "concept_words.json").read_text(encoding="utf-8"))
    readme = (ROOT / "README.md").read_text(encoding="utf-8").partition("## Where to begin")[0]
    tutorial = (ROOT / "docs" / "tutorial.md").read_text(encoding="utf-8").partition("That is the loop.")[0]
    first = {
        word: found.start()
        for word in known["concepts"]
        if (found := re.search(rf"\b{word}s?\b", readme + tutorial, re.IGNORECASE))
    }
    assert sorted(first, key=first.__getitem__) == known["met"]
    assert len(first) <= 16
