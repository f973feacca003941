"""How wide the command line is: commands and options, their groups, and the names that went."""

from __future__ import annotations

import importlib.util
import io
import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from command_line import run, spangrade
from paths import ROOT
from typer.main import get_command

from spangrade.evaluator.cli.app import app
from spangrade.evaluator.cli.commands import COMMANDS, GROUPS, help_text
from spangrade.evaluator.cli.gone import GONE, options_that_went
from spangrade.evaluator.cli.settings import setting_of, settings_by_flag

MOST_COMMANDS, MOST_OPTIONS, MOST_OF_A_COMMAND = 21, 260, 25
SURFACE = SimpleNamespace(**runpy.run_path(str(ROOT / ".ci" / "surface")))
SCREENS = 2 * 40  # lines, of 80 columns


def visible(command, words=()):
    """Yield each command with its words."""
    if hasattr(command, "list_commands"):
        for name in command.list_commands(None):
            yield from visible(command.get_command(None, name), (*words, name))
    else:
        yield words, command


def test_there_are_few_commands_with_few_options_and_none_is_hidden():
    commands = SURFACE.commands()
    assert len(commands) <= MOST_COMMANDS
    options = {words: SURFACE.options(one) for words, one in commands.items()}
    assert {words: len(found) for words, found in options.items() if len(found) > MOST_OF_A_COMMAND} == {}
    assert sum(map(len, options.values())) <= MOST_OPTIONS
    every = dict(visible(get_command(app)))
    assert [(words, p.name) for words, one in every.items() for p in (one, *one.params) if p.hidden] == []


def test_the_script_prints_the_counts(capsys):
    SURFACE.main()
    printed = capsys.readouterr().out
    numbers = [int(one.replace(",", "")) for one in re.findall(r"[\d,]*\d", printed)]
    names = ["commands", "options", "variables", "pages", "gone"]
    assert re.findall(r"^(\w+) ", printed, re.MULTILINE) == names
    assert numbers[0] == len(SURFACE.commands())
    assert numbers[-1] == len(GONE)


@pytest.mark.parametrize("command", ["run", "serve"])
def test_the_help_of_the_widest_commands_fits_two_screens(command, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    lines = run(command, "--help").out
    assert len(lines) <= SCREENS
    assert max(map(len, lines)) <= 80
    assert "<bool>" not in "".join(lines)
    assert "<path>" not in "".join(lines)


def test_no_page_and_no_message_types_a_name_that_went():
    texts = [ROOT / "README.md", ROOT / "action.yml", *(ROOT / "docs").rglob("*.md")]
    texts += [one for folder in ("deploy", "examples") for one in (ROOT / folder).rglob("*") if one.is_file()]
    texts += [
        one
        for folder in ("evaluator", "tracer", "converters")
        for kind in ("*.py", "*.html", "*.md", "*.sql")
        for one in (ROOT / folder).rglob(kind)
    ]
    assert dict(visible(get_command(app)))  # the settings of a command are known once it is built
    found = []
    for text in texts:
        if text.name == "gone.py" or text.suffix in (".png", ".gz", ".parquet"):
            continue
        for typed in re.findall(r"\bspangrade ([a-z]+(?: [^`\n|]*)?)", text.read_text("utf-8", "replace")):
            command, *words = typed.split()
            flags = {re.match(r"--[a-z-]*", word)[0] for word in words if word.startswith("--")}
            gone = {one for one in flags if one in GONE or f"{command} {one}" in GONE}
            gone -= {flag for flag in gone if flag in known_flags(command)}
            if command in GONE or gone or flags & settings_by_flag(command).keys():
                found.append((str(text.relative_to(ROOT)), typed))
    assert found == []


def known_flags(command):
    """Return the options of a command and of those under it."""
    own = [one for words, one in visible(get_command(app)) if words[0] == command]
    return {flag for one in own for p in one.params for flag in p.opts}


def test_every_help_begins_with_an_example():
    for words, command in visible(get_command(app)):
        assert re.match(r"\$ spangrade .+\n\n", command.help), words
        assert command.help.split()[2] == words[0]


def test_the_help_groups_the_commands_without_importing_them():
    printed = spangrade("--help").stdout
    assert printed == help_text()
    named = [line.split()[0] for line in printed.splitlines() if line.startswith("  ") and line[2].islower()]
    assert named == [name for group in GROUPS for name, one in COMMANDS.items() if one.group == group]
    program = "import sys; from spangrade.evaluator.cli import main\n"
    program += "try:\n    main()\nexcept SystemExit:\n"
    program += "    print(sorted({'typer', 'rich', 'duckdb'} & set(sys.modules)))"
    command = [sys.executable, "-c", program, "--help"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    assert done.stdout.endswith("\n[]\n")


@pytest.mark.parametrize("name", [one for one in GONE if "--" not in one])
def test_a_command_that_went_is_refused_with_what_took_its_place(name):
    (line,) = (done := run(*name.split(), "x", "--y")).err
    successor = GONE[name]
    assert (done.code, done.out) == (2, [])
    assert re.fullmatch(rf"spangrade: {name}: .*did you mean (spangrade )?{re.escape(successor)}\?", line)
    assert exists(successor)


@pytest.mark.parametrize(("command", "flag"), [*options_that_went()])
def test_an_option_that_went_is_refused_with_what_took_its_place(command, flag, monkeypatch):
    monkeypatch.setattr("command_line.with_variables", lambda given: ([*given], {}))  # as it is typed
    done = run(*command.split(), flag, "x")
    (line,) = done.err
    successor = setting_of(command, flag) or GONE.get(f"{command} {flag}") or GONE[flag]
    assert (done.code, done.out) == (2, [])
    assert line == f"spangrade: {flag}: {command} has no such option: did you mean {successor}?"


def exists(successor):
    """Return whether a command that took another's place is there, with the options that are named."""
    words = successor.split()
    if words[0] == "python":
        return importlib.util.find_spec(words[2]) is not None
    command = get_command(app).get_command(None, words[0])
    command = command.commands[command.default] if hasattr(command, "default") else command
    flags = {flag for one in command.params for flag in one.opts}
    return flags >= {word for word in words if word.startswith("--")}


@pytest.mark.exhaustive
def test_the_words_that_choose_sessions_are_the_same_everywhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text("def answer(text):\n    return text\n")
    questions = [{"id": one, "user_inputs": one, "required_texts": ["b"]} for one in "ab"]
    Path("golden.json").write_text(json.dumps(questions))
    assert run("run", "agent.py:answer", "golden.json", "--name", "first").code == 1
    assert run("grade", "golden.json", "--run", "second").code == 1
    where = ("--where", "origin:any question_id = 'b'", "--since", "1d", "--sample", "100%")
    listed = json.loads("\n".join(run("sessions", *where, "--format", "json").out))
    assert [one["question_id"] for one in listed] == ["b"]
    assert run("sessions", "--where", "version:9", "--format", "json").out == ["[]"]
    assert json.loads("\n".join(run("show", "first", *where, "--format", "json").out))["failures"] == []
    compared = json.loads("\n".join(run("compare", "first", "second", *where, "--format", "json").out))
    assert compared["compared"] == {"questions": 1, "of": 1}
    trend = json.loads("\n".join(run("trend", "passed", *where, "--format", "json").out))
    assert [point["mean"] for point in trend["points"]] == [1]
    found = json.loads("\n".join(run("lint", *where, "--format", "json").out))
    assert {one["session_id"] for one in found} <= {listed[0]["session_id"], None}
    marked = run("show", "first", *where, "--format", "markdown")
    assert (marked.code, marked.out) == (0, [])
    watched = run("serve", "--only", "grade", "--dataset", "golden.json", *where, "--once", "--idle", "0s")
    assert watched.out == ["1 session graded: 1 passed"]
    assert run(
        "serve",
        "--only",
        "grade",
        "--dataset",
        "golden.json",
        "--where",
        "version:9 origin:any",
        "--once",
        "--idle",
        "0s",
    ).out == ["0 sessions graded"]
    monkeypatch.setattr("sys.stdin", io.StringIO("p"))
    labelled = run("label", "--by", "ines", "--queue", "unlabelled", *where)
    assert labelled.out[-1] == "1 labelled: 1 pass"
    audited = json.loads("\n".join(run("audit", "golden.json", *where, "--format", "json").out))
    assert audited["sessions"] == 1
    refused = run("sessions", "--where", "metadata.topic = x")
    assert refused.err == ["spangrade: --where: it chooses questions: expected a condition on sessions"]


@pytest.mark.parametrize(
    ("table", "problem"),
    [
        ("[options.sessions]\nlimit = 1\n", None),
        (
            "[options.sessions]\nlimits = 1\n",
            "options.sessions: unknown key 'limits'; did you mean \"limit\"?",
        ),
    ],
)
@pytest.mark.short_form("table", 2)
def test_any_option_may_be_a_key_of_the_settings(tmp_path, monkeypatch, table, problem):
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text("def answer(text):\n    return text\n")
    Path("golden.json").write_text(json.dumps([{"id": one, "user_inputs": one} for one in "ab"]))
    run("run", "agent.py:answer", "golden.json")
    Path("spangrade.toml").write_text(table)
    done = run("sessions", "--format", "json")
    if problem is None:
        assert len(json.loads("\n".join(done.out))) == 1
    else:
        assert (done.code, done.err) == (2, [f"spangrade: {tmp_path / 'spangrade.toml'}: {problem}"])


@pytest.mark.exhaustive
def test_every_result_has_the_same_forms(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("agent.py").write_text("def answer(text):\n    return text\n")
    Path("golden.json").write_text('{"id": "a", "user_inputs": "hello", "required_texts": ["hello"]}')
    assert run("run", "agent.py:answer", "golden.json", "--name", "first").code == 0
    query = (
        "SELECT '=1+1' AS text, 2 AS number, [1, 2] AS list, NULL AS nothing, TIMESTAMP '2026-01-02' AS at"
    )
    assert run("sql", query, "--format", "csv").out == [
        "text,number,list,nothing,at",
        '\'=1+1,2,"[1,2]",,2026-01-02T00:00:00',
    ]
    assert run("sql", "SELECT 'a|b' AS text, true AS yes", "--format", "markdown").out == [
        "| `text` | `yes` |",
        "|---|---|",
        "| `a¦b` | `true` |",
    ]
    graded = run("grade", "golden.json", "--format", "csv").out
    assert graded[0].split(",")[:4] == ["session_id", "question_id", "verdict", "reason"]
    assert [line.split(",")[1:3] for line in graded[1:]] == [["a", "passed"]]
    assert run("grade", "golden.json", "--run", "second").code == 0
    compared = run("compare", "first", "second", "--format", "csv")
    assert (compared.code, "passed" in "".join(compared.out)) == (0, True)
    for command in (
        ("sessions",),
        ("runs",),
        ("lint", "--metrics"),
        ("doctor",),
        ("lint",),
    ):
        forms = {form: run(*command, "--format", form) for form in ("table", "json", "csv", "markdown")}
        assert len({done.code for done in forms.values()}) == 1, command
        rows = json.loads("\n".join(forms["json"].out))
        rows = rows["checked"] if command == ("doctor",) else rows
        names = list(dict.fromkeys(name for row in rows for name in row))
        assert forms["csv"].out[:1] == ([",".join(names)] if names else []), command
        assert len(forms["markdown"].out) == (len(rows) + 2 if rows else 0), command
