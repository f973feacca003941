"""Each capability through every door, and the same facts and words at each that shows them."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from command_line import run as spangrade
from doors import GOLDEN
from made_once import copy_of, copy_of_sample, made_once
from pages import elements, find_all, parsed, text
from paths import ROOT
from serving import Served, serving

import spangrade as package
from spangrade.evaluator.apps.mcp.tools import Tools
from spangrade.evaluator.cli.commands import COMMANDS, NOT_ON_A_LAKE

COLUMNS = ("command", "python", "page", "mcp", "lake")
NOT_CAPABILITIES = {"path", "close"}
# Addresses of parts of pages.
PARTS = re.compile(
    r"/(live|count|suggestions|undo|runs/|review/next)|/(image|\{part\}|rows|summary|compare/sessions|proof)$"
)
ROWS = [
    dict(zip(("capability", *COLUMNS), (cell.strip() for cell in line.strip("|").split("|")), strict=True))
    for line in (ROOT / "docs" / "notes" / "doors.md").read_text(encoding="utf-8").splitlines()
    if line.startswith("| ") and not line.startswith("| capability")
]


def named(column: str) -> set[str]:
    """Return the names in a column, without those in the reasons why a door lacks something."""
    cells = (row[column] for row in ROWS if not row[column].startswith("–"))
    return {name for cell in cells for name in re.findall(r"`([^`]+)`", cell)}


def test_each_cell_is_a_name_or_a_reason() -> None:
    assert [row for row in ROWS if not all(re.match(r"`|– \S+ \S+", row[column]) for column in COLUMNS)] == []


def test_every_command_method_and_tool_is_there_and_exists() -> None:
    assert named("command") == set(COMMANDS)
    methods = {name for name in dir(package.Database) if not name.startswith("_")} - NOT_CAPABILITIES
    assert named("python") - {"list_metrics"} == methods
    assert hasattr(package, "list_metrics")
    tools = {name for name, value in vars(Tools).items() if callable(value) and not name.startswith("_")}
    assert named("mcp") == tools


def test_every_page_is_there_and_exists(db: Path) -> None:
    from spangrade.evaluator.apps.server.pages import app

    source = Path(app.__file__).read_text(encoding="utf-8")
    routes = re.findall(r'Route\("([^"]+)", [^)]*"GET"', source)
    assert named("page") == {path for path in routes if not PARTS.search(path)}


def test_what_is_not_for_a_lake_is_refused_and_all_else_named() -> None:
    for row in ROWS:
        commands = set(re.findall(r"`([^`]+)`", row["command"]))
        if row["lake"].startswith("`--lake`"):
            assert not commands & NOT_ON_A_LAKE.keys(), row
    refused = {
        name for row in ROWS if "--lake" not in row["lake"] for name in re.findall(r"`(\w+)`", row["command"])
    }
    assert NOT_ON_A_LAKE.keys() <= refused


def graded(path: Path) -> None:
    db = package.open(copy_of_sample(path))
    db.grade(GOLDEN, gates="tool_success_rate>=0.9", name="first")
    db.grade(GOLDEN, gates="token_usage<=0", name="second")
    db.grade(GOLDEN, gates="tool_success_rate>=0.9", name="third")


@pytest.fixture
def db(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a database of the sample that was graded three times; each test has a copy."""
    monkeypatch.chdir(tmp_path)
    return copy_of(made_once("graded-at-doors", graded), tmp_path / "spangrade.duckdb")


class Doors(NamedTuple):
    """The doors of one database."""

    python: package.Database
    tools: Tools
    pages: Served

    def asked(self, tool: str, *arguments: Any, **more: Any) -> Any:
        """Return what a tool answers, without what is said of it."""
        answer = json.loads(getattr(self.tools, tool)(*arguments, **more))
        return answer.get("recorded", answer.get("content"))


@pytest.fixture
def doors(db: Path) -> Iterator[Doors]:
    opened = package.open("spangrade.duckdb")
    with serving(db) as served:
        yield Doors(opened, Tools(opened, max_tokens=50_000), served)


def printed(*arguments: str) -> Any:
    done = spangrade(*arguments, "--format", "json")
    return json.loads("\n".join(done.out))


def verdicts(rows: Any) -> dict[str, str]:
    return {row["session_id"]: row["verdict"] for row in rows}


def test_sessions_have_the_same_verdicts(doors: Doors) -> None:
    expected = verdicts(printed("sessions"))
    assert Counter(expected.values()) == {"passed": 2, "failed": 2}
    assert verdicts(doors.python.list_sessions()) == expected
    assert verdicts(doors.asked("sessions")) == expected
    rows = [row for row in elements(parsed(doors.pages.get("/sessions").text)) if row.get("data-session")]
    assert {row.get("data-session"): text(find_all(row, class_="verdict")[0]) for row in rows} == expected


def test_a_session_has_the_same_verdict_and_reason(doors: Doors) -> None:
    shown = printed("show", "conversation-2")["grade"]
    grade = doors.python.latest_grade("conversation-2")
    assert grade is not None
    asked = doors.asked("session", "conversation-2")[0]
    assert (grade.verdict, asked["verdict"]) == (shown["verdict"],) * 2 == ("failed", "failed")
    reason = asked["reason"]
    assert reason == "tool_success_rate: 0.5, expected >= 0.9: failed: look_up_order"
    assert reason.partition(": ")[2] in json.dumps(shown)
    page = text(parsed(doors.pages.get("/session/conversation-2").text))
    assert "failed: look_up_order" in page


def test_runs_have_the_same_counts(doors: Doors) -> None:
    def counts(rows: Any) -> list[tuple[str, int, int]]:
        return [(row["name"], row["passed"], row["failed"]) for row in rows]

    expected = [("third", 2, 2), ("second", 0, 4), ("first", 2, 2)]
    assert counts(printed("runs")) == expected
    assert counts(doors.python.list_runs()) == expected
    assert counts(doors.asked("runs")) == expected
    python = [(run.name, run.verdicts["passed"], run.verdicts["failed"]) for run in doors.python.runs()]
    assert python == expected[::-1]  # the oldest first, so that the newest is `runs()[-1]`
    page = text(parsed(doors.pages.get("/runs").text))
    assert [page.index(name) for name, *_ in expected] == sorted(page.index(name) for name, *_ in expected)


def test_a_comparison_has_the_same_words_and_exit_code(doors: Doors) -> None:
    def changes(metrics: Any) -> dict[str, str]:
        return {one["metric"]: one["change"] for one in metrics if "change" in one}

    compared = doors.python.compare("first", "third", fail_if="worse")
    done = spangrade("compare", "first", "third", "--fail-if", "worse", "--format", "json")
    expected = changes(json.loads("\n".join(done.out))["metrics"])
    assert expected["passed"] == "no difference shown"
    assert done.code == compared.exit_code() == 0
    asked = changes(doors.asked("compare", "first", "third"))
    assert asked == {name: expected[name] for name in asked}
    assert "passed" in asked
    assert "no difference shown" in text(parsed(doors.pages.get("/compare?a=first&b=third").text))


def test_failures_are_explained_alike(doors: Doors) -> None:
    expected = [one["what"] for one in printed("show", "third")["failures"]]
    assert len(expected) == 2
    assert [one.what for one in doors.python.explain("third")] == expected
    assert [one["what"] for one in doors.asked("explain", "third")] == expected


def test_queries_metrics_and_findings_are_the_same(doors: Doors) -> None:
    query = "SELECT session_id, verdict, cost_usd FROM sessions ORDER BY 1"
    rows = printed("sql", query)
    assert doors.python.sql(query).rows() == doors.asked("sql", query) == rows
    names = {one["name"] for one in printed("lint", "--metrics")}
    assert {one.name for one in package.list_metrics()} == names
    assert {one["name"] for one in doors.asked("metrics")} == names
    assert [one.code for one in doors.python.lint()] == printed("lint") == doors.asked("lint") == []


MISTAKES: dict[str, tuple[tuple[str, ...], Callable[[package.Database], Any], Callable[[Tools], Any]]] = {
    "run": (
        ("compare", "first", "nope"),
        lambda db: db.compare("first", "nope"),
        lambda tools: tools.compare("first", "nope"),
    ),
    "session": (("show", "nope"), lambda db: db.graded_session("nope"), lambda tools: tools.session("nope")),
    "query": (
        ("sql", "DROP TABLE spans"),
        lambda db: db.sql("DROP TABLE spans"),
        lambda tools: tools.sql("DROP TABLE spans"),
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES)
def test_a_mistake_has_the_same_words(mistake: Any, db: Path) -> None:
    command, call, ask = mistake
    opened = package.open("spangrade.duckdb")
    done = spangrade(*command)
    assert (done.code, len(done.err)) == (2, 1)
    for asked in (lambda: call(opened), lambda: ask(Tools(opened))):
        with pytest.raises(package.InputError) as refused:
            asked()
        assert done.err == [f"spangrade: {refused.value}"]
