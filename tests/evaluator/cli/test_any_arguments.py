"""No arguments, files or databases break a command: none ends with the code of a defect."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
from collections.abc import Sequence
from enum import StrEnum
from pathlib import Path
from typing import Any
from unittest import mock

import duckdb
import pytest
from command_line import Done, run
from every_command import leaves
from hypothesis import given, settings
from hypothesis import strategies as st
from made_once import copy_of_sample
from paths import SAMPLE
from typer.main import get_command

from spangrade import ExitCode
from spangrade.evaluator.cli.app import app

EXAMPLES = 300 if settings.get_current_profile_name() == "long" else 4
CODES = {0, 1, 2, 3, 4}
TEXTS = (
    "", " ", "x", "-", "--", "=", "a=b", "a=", "=b", "5%", "1e400", "nan", "30d", "99999999999d",
    "2026-01-31",
    "2026-13-45", "0001-01-01", "9999-12-31T23:59:59+14:00", "tool_success_rate", "tool_success_rate>=1",
    "tool_success_rate>=1e999", "metadata.a = 1 and", "turns > 0", "true", "'", '"', "\\", "%s{0}", "../..",
    "\udcff",
    "é\u202e", "9" * 400, "conversation-1", "conversation-1=first", "mask:a", "hash", "anthropic/", "/", "[]",
    "SELECT 1", "FROM sessions", "SELECT error('x')", "EXPLAIN SELECT 1", "DROP TABLE spans",
    "latest", "previous",
)  # fmt: skip
NUMBERS = ("-1", "0", "1", "2", "3", "0.5", "1e308", "nan", "inf", str(2**63), str(-(2**70)), "x", "")
SKIPPED = {"help", "workers", "install_completion", "show_completion"}  # 2^63 processes would be started
BY_NAME = {"http_port": "PORT", "grpc_port": "PORT", "port": "PORT"}
JSON_VALUES = (
    [],
    [[]],
    {},
    0,
    1e308,
    None,
    "x",
    True,
    [None],
    [{}],
    {"a": {"b": []}},
    {"golden_questions": [{}]},
)


COMMANDS = dict(leaves(get_command(app)))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with files and databases that commands can and cannot use."""
    folder = tmp_path_factory.mktemp("hostile")
    files: dict[str, bytes] = {
        **{f"value-{number}.json": json.dumps(value).encode() for number, value in enumerate(JSON_VALUES)},
        "empty.json": b"",
        "half.json": b'{"golden_questions": [',
        "bytes.bin": bytes(range(256)) * 8,
        "cut.jsonl.gz": gzip.compress(b'{"resourceSpans": []}\n' * 100)[:-9],
        "deep.json": b"[" * 100_000 + b"]" * 100_000,
        "metrics.sql": b"SELECT 1 AS session_id, 'x' AS score",
        "metrics.py": b"raise SystemExit(1)",
        "settings.toml": b"[judge]\nvotes = 'x'",
        "deep.toml": b"a = " + b"[" * 5_000,
        "table.csv": b'a,b\n1\n"',
    }
    for name, content in files.items():
        (folder / name).write_bytes(content)
    (folder / "folder").mkdir()
    (folder / "broken-link.json").symlink_to("nowhere")
    shutil.copytree(SAMPLE, folder / "sample")
    copy_of_sample(folder / "good.duckdb")
    (folder / "cut.duckdb").write_bytes((folder / "good.duckdb").read_bytes()[:20_000])
    duckdb.connect(str(folder / "other.duckdb")).close()
    run("grade", folder / "sample", "--db", folder / "good.duckdb", "--run", "first", "--out", folder / "out")
    return folder


def value(draw: st.DrawFn, parameter: Any, files: Sequence[str]) -> str:
    """Draw a value of an option or argument: one that fits its type, or any other."""
    kind = str(parameter.type_descriptor.annotation)
    likely = files if "Path" in kind else NUMBERS if "int" in kind or "float" in kind else TEXTS
    if isinstance(parameter.type_descriptor.annotation, type(StrEnum)):
        likely = [*parameter.type_descriptor.annotation]
    return str(draw(st.sampled_from(likely) | st.sampled_from([*TEXTS, *files])))


@st.composite
def lines(draw: st.DrawFn, command: Any, files: Sequence[str], port: str) -> list[str]:
    """Draw the arguments of a command."""
    given: list[str] = []
    for parameter in command.params:
        if parameter.name in SKIPPED:
            continue
        if BY_NAME.get(parameter.name) == "PORT":
            given.append(f"{parameter.opts[0]}={port}")
        elif parameter.param_type_name == "argument":
            number = draw(st.integers(int(parameter.required), 1 if parameter.nargs == 1 else 3))
            given += [value(draw, parameter, files) for _ in range(number)]
        elif parameter.name == "db":
            given.append(f"--db={draw(st.sampled_from(['good.duckdb'] * 3 + files))}")
        elif draw(st.integers(0, 5)) == 0:
            option = draw(st.sampled_from(parameter.opts))
            given.append(option if parameter.is_flag else f"{option}={value(draw, parameter, files)}")
    return given


@pytest.mark.short_form("words", 6)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@settings(max_examples=EXAMPLES)
@given(data=st.data())
def test_no_arguments_are_a_defect(
    words: tuple[str, ...], data: st.DataObject, place: Path, port: str
) -> None:
    files = sorted(path.name for path in place.iterdir())
    arguments = data.draw(lines(COMMANDS[words], [*files, "missing", "missing/x"], port))
    if words == ("watch",):
        arguments.append("--once")
    done = in_copy(place, [*words, *arguments])
    assert done.code in CODES, (done, *(Path(file).read_text() for file in re.findall(r"\S+$", done.err[-1])))


def in_copy(place: Path, arguments: Sequence[str]) -> Done:
    """Run a command in the folder; what it wrote is not kept."""
    there = set(place.rglob("*"))
    before = {path: path.read_bytes() for path in there if path.is_file()}
    stdin = io.StringIO("pfsbx\n\n")
    try:
        with mock.patch("sys.stdin", stdin), pytest.MonkeyPatch.context() as patch:
            patch.chdir(place)
            return run(*arguments)
    finally:
        for path in sorted(set(place.rglob("*")) - there, reverse=True):  # a folder after what is in it
            if path.is_dir() and not path.is_symlink():
                path.rmdir()
            else:
                path.unlink()
        for path, content in before.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            if not path.exists() or path.read_bytes() != content:
                path.write_bytes(content)


@pytest.mark.parametrize(
    ("file", "reason"),
    [
        ("deep.json", "not JSON: line 1, column 1026: depth limit exceeded"),
        ("deep.toml", "nested too deep"),
    ],
)
def test_settings_that_are_nested_too_deep_are_one_line(place: Path, file: str, reason: str) -> None:
    expected = [f"spangrade: {place / file}: {reason}"]
    assert run("lint", "--metrics", "--config", place / file) == (2, [], expected)


def test_every_code_has_a_name() -> None:
    assert {code.value for code in ExitCode} == CODES | {70, 130}


@pytest.mark.parametrize(
    "words",
    [
        ("§",), ("runs", "--db", "§"), ("sessions", "--§"), ("sessions", "§"), ("--umask", "§", "runs"),
        ("show", "§", "--db", "good.duckdb"), ("compare", "first", "§", "--db", "good.duckdb"),
        ("label", "§", "pass", "--by", "x", "--db", "good.duckdb"), ("judge", "§"),
        ("label", "conversation-1", "§", "--by", "x"), ("serve", "--only", "receive", "--redact", "§"),
        ("judge", "§", "--again", "--db", "good.duckdb"), ("grade", "§", "--db", "good.duckdb"),
        ("compare", "first", "first", "--fail-if", "§", "--db", "good.duckdb"),
        ("sql", "SELECT §", "--db", "good.duckdb"), ("sessions", "--where", "§", "--db", "good.duckdb"),
        ("grade", "sample", "--metric", "§", "--db", "good.duckdb"),
    ],
    ids=" ".join,
)  # fmt: skip
@pytest.mark.parametrize("text", ["x" * 200_000, "x\nspangrade: 9 sessions: 9 passed"], ids=["long", "lines"])
@pytest.mark.short_form("text", 2)
@pytest.mark.short_form("words", 3)
def test_a_message_shows_little_of_an_argument_and_no_line_of_it(
    words: tuple[str, ...], text: str, place: Path
) -> None:
    done = in_copy(place, [word.replace("§", text) for word in words])
    assert done.code == 2
    assert len("".join(done.err)) < 4_000
    assert not [line for line in done.err if re.match(r"\W*spangrade: 9", line)]


@pytest.mark.parametrize("command", ["grade", "audit"])
def test_a_dataset_that_leads_to_a_device_is_refused(command: str, place: Path, tmp_path: Path) -> None:
    link = tmp_path / "golden.json"
    link.symlink_to("/dev/zero")
    done = in_copy(place, [command, str(link), "--db", "good.duckdb"])
    assert (done.code, done.err) == (2, [f"spangrade: {link}: a device; expected a file"])
