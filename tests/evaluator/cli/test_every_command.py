"""What holds of every command: how it ends on a full or read-only disk, with a closed pipe, and at Ctrl-C."""

from __future__ import annotations

import io
import os
import re
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest import mock

import pytest
from command_line import Done, run
from every_command import COMMANDS, WITH_OTHERS, Forked, arguments, fill, leaves
from full_disks import full_disk
from hypothesis import settings
from typer.main import get_command

from spangrade.evaluator.cli.app import app

LEAVES = dict(leaves(get_command(app)))
LONG = settings.get_current_profile_name() == "long"
# The codes of commands that cannot do their work here: no questions were expected to pass or fail, too few
# labels, no judge, a port in use, no lake.
CODES = {
    ("run",): 4,
    ("judge",): 4,
    ("serve", "serve"): 2,
}
CODES |= {words: 2 for words in COMMANDS if words[0] == "lake"}
# Those that write nothing: on a full or read-only disk they work.
READ = {
    ("sessions",), ("show",), ("runs",), ("trend",), ("lint",), ("sql",), ("doctor",),
    ("judge",),
    ("mcp",), ("serve", "keys", "list"), ("serve", "alerts"),
}  # fmt: skip


def every_command(test: Callable[..., None]) -> Callable[..., None]:
    """Run a test with each command; the suite, with each tenth."""
    return pytest.mark.short_form("words", 10)(pytest.mark.parametrize("words", COMMANDS, ids=" ".join)(test))


@pytest.fixture(scope="module")
def forked() -> Iterator[Forked]:
    with Forked() as processes:
        yield processes


@contextmanager
def read_only(folder: Path) -> Iterator[None]:
    """Let nobody write to a folder; root can write wherever the mode does not allow it, so it is mounted."""
    if os.geteuid():
        folder.chmod(0o555)
    elif subprocess.run(["mount", "--bind", "-o", "ro", folder, folder], check=False).returncode:
        pytest.skip("root needs to mount a folder read-only, and may not")
    try:
        yield
    finally:
        if os.geteuid():
            folder.chmod(0o755)
        else:
            subprocess.run(["umount", folder], check=True)


def ended(words: tuple[str, ...], port: str) -> Done:
    with mock.patch("sys.stdin", io.StringIO("p\nq\n")):
        return run(*arguments(words, LEAVES[words], port))


def test_every_command_is_here() -> None:
    assert COMMANDS.keys() == LEAVES.keys() - WITH_OTHERS


@every_command
def test_on_a_full_disk_it_works_or_is_one_line_that_names_what_cannot_be_written(
    words: tuple[str, ...], port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(fill(tmp_path))
    with full_disk(0):
        done = ended(words, port)
    if words in READ:
        assert done.code == CODES.get(words, 0)
    else:
        assert (done.code, len(done.err)) == (2, 2 if words == ("delete",) else 1)  # it says what it deletes
        assert re.match(r"spangrade: (\S+: |a lake needs |no run has verdicts of )", done.err[-1])


@every_command
def test_in_a_read_only_folder_it_works_or_is_one_line_that_names_what_cannot_be_written(
    words: tuple[str, ...], port: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path)
    with read_only(tmp_path):
        monkeypatch.chdir(tmp_path)
        done = ended(words, port)
        monkeypatch.chdir("/")
    if words in READ:
        assert done.code == CODES.get(words, 0)
    else:
        assert (done.code, len(done.err)) == (2, 1)
        files = r"out|pages|copy|restored|\.|(\S*/)?(s|spangrade)\.duckdb|\w+\.(json|csv)(\.lock)?"
        named = rf"({files}): .*(Read-only file system|Permission denied)"
        port_first = r"127\.0\.0\.1:\d+: cannot listen: "  # the port of these tests is taken
        assert re.match(
            rf"spangrade: ({named}|{port_first}|a lake needs |no run has verdicts of )", done.err[0]
        )


@every_command
def test_when_nobody_reads_what_it_prints_it_ends_quietly_with_its_own_code(
    words: tuple[str, ...], port: str, tmp_path: Path, forked: Forked
) -> None:
    done = forked.run(arguments(words, LEAVES[words], port), fill(tmp_path), closed=True)
    assert done.code == CODES.get(words, 0)
    assert re.fullmatch(r"(spangrade: .*\n)*", done.err)


@pytest.mark.parametrize("words", [("lint",), ("runs",), ("lake", "status")], ids=" ".join)
def test_ctrl_c_before_a_command_starts_is_one_line_and_130(
    words: tuple[str, ...], port: str, tmp_path: Path, forked: Forked
) -> None:
    done = forked.run(arguments(words, LEAVES[words], port), fill(tmp_path), at="make_context")
    assert (done.code, done.err) == (130, "spangrade: interrupted\n")


@every_command
def test_ctrl_c_while_a_database_opens_is_one_line_and_130(
    words: tuple[str, ...], port: str, tmp_path: Path, forked: Forked
) -> None:
    done = forked.run(arguments(words, LEAVES[words], port), fill(tmp_path), at="connect")
    if done.pressed:
        assert (done.code, done.err) == (130, "spangrade: interrupted\n")
    else:  # it opens no database, or Ctrl-C ends it after the work in progress
        assert done.code == CODES.get(words, 0)


@pytest.mark.exhaustive
@pytest.mark.skipif(not LONG, reason="a quarter of an hour: .ci/long")
@every_command
def test_ctrl_c_at_any_call_is_one_line_and_130(
    words: tuple[str, ...], port: str, tmp_path: Path, forked: Forked
) -> None:
    number = 0

    def folder() -> Path:
        nonlocal number
        number += 1
        made = tmp_path / str(number)
        made.mkdir()
        return fill(made)

    calls = forked.run(arguments(words, LEAVES[words], port), folder(), at="never").calls
    for at in range(calls // 41, calls * 9 // 10, calls // 41):
        done = forked.run(arguments(words, LEAVES[words], port), folder(), at=at)
        if True:
            last = done.err.splitlines()[-1:]
            assert (done.code, last) == (130, ["spangrade: interrupted"]), (at, done.err)
            assert words == ("run",) or len(done.err.splitlines()) == 1, (at, done.err)
