"""Run a page of the documentation as a reader types it.

`python tests/run_pages.py PAGE` prints its blocks, each with what it prints.

All blocks of a page run in order, in one shell and one folder that begins with nothing but the checkout,
`spangrade/`:

- `sh`: commands. One that fails is an error unless the output that follows says `exit code N`. What is meant
  for another terminal (`title="in another terminal"`) runs beside the rest until the page ends.
- `text`: lines that the block before printed, in this order; `…` stands for any text, eight hex digits for
  any id.
- any language with a `title="golden.json"`: a file of this name.
- `python` without a title: a program. `sql`: a query of the page's database.

`pip install` installs nothing: of the packages that only an extra of spangrade needs, those that the page
does not install cannot be imported.
"""

from __future__ import annotations

import json
import os
import re
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator
from functools import cache
from importlib.metadata import PackageNotFoundError, metadata, packages_distributions, requires
from pathlib import Path
from typing import NamedTuple

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from paths import ROOT

_BLOCK = re.compile(r"^( *)```(\w+)(?: title=\"([^\"]+)\")?\n(.*?)^\1```", re.DOTALL | re.MULTILINE)
_ELSEWHERE = "in another terminal"
_IN_A_CLEAN_CLONE = "python3 -m venv"  # the README's two blocks, which .ci/run runs
_DONE = "\x1edone"
_FAILED = "\x1efailed"
_ENDED = "the command has ended"
_LONGEST_S = 120
_OF_THIS_MACHINE = (
    *("OTEL_", "SPANGRADE_", "PYTEST_", "COV_", "GITHUB_", "CI"),
    *("GEMINI_", "GOOGLE_", "OPENAI_", "ANTHROPIC_", "AWS_"),
)
_HEX = re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8}\b")
_SHELL = f"""
cd "$FOLDER"; set -E; trap 'printf "{_FAILED} %s\\n" $?' ERR
pip() {{ for one in "$@"; do printf '%s\\n' "$one" >> "$PLAY/installed"; done; "$PYTHON" "$PLAY/allow.py"; }}
git() {{ if [ "$1" = clone ]; then [ -e spangrade ] || ln -s "$ROOT" spangrade; else command git "$@"; fi; }}
"""
_HIDE = """
import importlib.machinery, json, os, sys
from pathlib import Path
hidden = set(json.loads(Path(os.environ["PLAY"], "hidden.json").read_text()))
class Finder(importlib.machinery.PathFinder):
    @classmethod
    def find_spec(cls, name, path=None, target=None):
        return None if name.partition(".")[0] in hidden else super().find_spec(name, path, target)
sys.meta_path[sys.meta_path.index(importlib.machinery.PathFinder)] = Finder
"""


class Block(NamedTuple):
    """A block of code of a page: its line, language, title and text."""

    line: int
    language: str
    title: str
    text: str


class Played(NamedTuple):
    """A block, what it printed, and what is wrong with that (empty: nothing)."""

    block: Block
    printed: str
    wrong: str


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page."""
    return [
        Block(
            text.count("\n", 0, found.start()) + 1,
            found[2],
            found[3] or "",
            re.sub(rf"^{found[1]}", "", found[4], flags=re.MULTILINE),
        )
        for found in _BLOCK.finditer(text)
    ]


def lacking(expected: str, printed: str) -> str:
    """Return the first expected line that was not printed after those before it, empty if there is none."""
    rest = [" ".join(line.split()) for line in printed.splitlines()]
    for line in filter(None, (" ".join(line.split()) for line in expected.splitlines())):
        pattern = ".*".join(
            "[0-9a-f]{8}".join(map(re.escape, _HEX.split(part))) for part in re.split(r"\s*…\s*", line)
        )
        at = next((number for number, one in enumerate(rest) if re.fullmatch(pattern, one)), None)
        if at is None:
            return line
        rest = rest[at + 1 :]
    return ""


def play(page: Path, folder: Path) -> Iterator[Played]:
    """Run the blocks of a page in a folder and yield each, with what it printed."""
    found = blocks(page.read_text(encoding="utf-8"))
    with tempfile.TemporaryDirectory(prefix="spangrade-page-") as beside:
        yield from _Play(folder, Path(beside)).blocks(found)


# A network of its own, if the machine lets have one: the ports of a page are free there, and none is reached.
_APART = ["unshare", "--user", "--map-root-user", "--net", "bash", "-c"]


@cache
def _can_be_apart() -> bool:
    command = [*_APART, "ip link set lo up"]
    return (
        bool(shutil.which("unshare"))
        and not subprocess.run(command, capture_output=True, check=False).returncode
    )


class _Play:
    def __init__(self, folder: Path, beside: Path) -> None:
        self.folder, self.beside = folder, beside
        (folder / "spangrade").symlink_to(ROOT)
        (beside / "sitecustomize.py").write_text(_HIDE)
        (beside / "allow.py").write_text(
            f"import sys; sys.path[:0] = [{str(ROOT / 'tests')!r}]; import run_pages; run_pages.allow()"
        )
        (beside / "installed").write_text("")
        kept = {key: value for key, value in os.environ.items() if not key.startswith(_OF_THIS_MACHINE)}
        self.environment = kept | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "PYTHONPATH": f"{beside}{os.pathsep}{os.environ.get('PYTHONPATH', '')}".strip(os.pathsep),
            "HOME": str(beside),
            "PLAY": str(beside),
            "FOLDER": str(folder),
            "ROOT": str(ROOT),
            "PYTHON": sys.executable,
            "COLUMNS": "110",
            "SPANGRADE_CACHE_DIR": str(beside / "cache"),
            "PYTHONUNBUFFERED": "1",
        }
        allow(beside)

    def blocks(self, found: list[Block]) -> Iterator[Played]:
        running, inherited = os.pipe()  # it ends when all have ended that the page started
        self.shell = subprocess.Popen(
            [*_APART, "ip link set lo up && exec bash"] if _can_be_apart() else ["bash"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=self.environment,
            start_new_session=True,
            pass_fds=(inherited,),
        )
        os.close(inherited)
        try:
            self.typed(_SHELL)
            for number, block in enumerate(found):
                after = found[number + 1] if number + 1 < len(found) else None
                yield self.block(block, after.text if after and after.language == "text" else "")
        finally:
            os.killpg(self.shell.pid, signal.SIGTERM)
            self.shell.communicate(timeout=30)
            os.read(running, 1)
            os.close(running)

    def block(self, block: Block, expected: str) -> Played:
        if block.language == "text":
            return Played(block, "", "")  # compared with what the block before printed
        if block.title and block.title != _ELSEWHERE:
            file = self.folder / block.title
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(block.text, encoding="utf-8")
            return Played(block, "", "")
        if block.title == _ELSEWHERE:
            log = self.beside / "terminal"
            command = block.text.strip().rstrip("&")
            self.typed(f"{{ {command} ; echo '{_ENDED}' ; }} > {log} 2>&1 < /dev/null &\n")
            printed = self.until_serving(log)
        elif block.text.startswith(_IN_A_CLEAN_CLONE):
            with (self.beside / "installed").open("a") as installed:
                what = block.text.partition("install ")[2].split()[0]
                print(what if "-e" not in what else "", file=installed)
            allow(self.beside)
            return Played(block, "", "")
        elif block.language == "sh":
            printed = self.typed(block.text)
        elif block.language == "python":
            (self.beside / "program.py").write_text(block.text)
            printed = self.typed('"$PYTHON" -c "$(cat "$PLAY/program.py")"\n')
        elif block.language == "sql":
            (self.beside / "query.sql").write_text(block.text)
            printed = self.typed('spangrade sql "$(cat "$PLAY/query.sql")"\n')
        else:
            return Played(block, "", self.parsed(block))
        codes = set(re.findall(rf"^{_FAILED} (\d+)\n", printed, re.MULTILINE))
        printed = re.sub(rf"^{_FAILED} \d+\n", "", printed, flags=re.MULTILINE)
        told = set(re.findall(r"exit code (\d+)", expected + block.text))
        wrong = f"exit code {', '.join(sorted(codes - told))}" if codes - told else ""
        line = lacking(expected, printed)
        return Played(block, printed, wrong or (f"not printed: {line}" if line else ""))

    def typed(self, text: str) -> str:
        """Type lines into the shell, and return what is printed until they are done."""
        (self.beside / "typed.sh").write_text(text)
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        self.shell.stdin.write(f". '{self.beside}/typed.sh' < /dev/null; echo; echo '{_DONE}'\n".encode())
        self.shell.stdin.flush()
        printed, ends = b"", time.monotonic() + _LONGEST_S
        with selectors.DefaultSelector() as selector:
            selector.register(self.shell.stdout, selectors.EVENT_READ)
            while f"\n{_DONE}\n".encode() not in printed:
                if not selector.select(max(ends - time.monotonic(), 0)):
                    raise TimeoutError(f"{text}\n{printed.decode()}")
                more = os.read(self.shell.stdout.fileno(), 65536)
                if not more:
                    raise EOFError(f"{text}\n{printed.decode()}")
                printed += more
        return printed.decode().removesuffix(f"\n{_DONE}\n")

    def until_serving(self, log: Path) -> str:
        """Return what a server printed once it has named its address."""
        told = rf"grep -q 'http://\|{_ENDED}' {log} 2> /dev/null"
        return self.typed(
            f"for _ in $(seq 1 300); do if {told}; then break; fi; sleep 0.1; done; cat {log}\n"
        )

    def parsed(self, block: Block) -> str:
        """Return why a block is not of its language, empty if it is or nobody knows."""
        try:
            if block.language == "json":
                json.loads(block.text)
            elif block.language == "toml":
                tomllib.loads(block.text)
        except ValueError as error:
            return str(error)
        return ""


def allow(beside: Path | None = None) -> None:
    """Write the names of the modules that cannot be imported: those that the page did not install."""
    beside = beside or Path(os.environ["PLAY"])
    wanted = {"spangrade", "packaging", "pip", "setuptools", "uv"}
    for text in (beside / "installed").read_text().split():
        name, _, extras = text.strip("'\"").removeprefix("./").partition("[")
        extras = extras.rstrip("]")
        if name in (".", "spangrade"):
            wanted |= {f"spangrade[{extra}]" for extra in extras.split(",") if extra}
        elif text not in ("install", "-q", "-e"):
            wanted.add(text)
    there = _with_dependencies(wanted)
    extras = set(metadata("spangrade").get_all("Provides-Extra") or ()) - {"dev", "docs"}
    optional = _with_dependencies({f"spangrade[{','.join(extras)}]"}) - there
    names = {
        module
        for module, distributions in packages_distributions().items()
        if {canonicalize_name(one) for one in distributions} <= optional
    }
    (beside / "hidden.json").write_text(json.dumps(sorted(names)))


def _with_dependencies(wanted: set[str]) -> set[str]:
    """Return the names of packages with those that they need."""
    waiting, seen = list(map(Requirement, wanted)), set()
    while waiting:
        one = waiting.pop()
        key = (canonicalize_name(one.name), frozenset(one.extras))
        if key in seen:
            continue
        seen.add(key)
        try:
            needed = map(Requirement, requires(one.name) or ())
        except PackageNotFoundError:
            continue
        waiting += [
            each
            for each in needed
            if each.marker is None
            or any(each.marker.evaluate({"extra": extra}) for extra in one.extras or {""})
        ]
    return {name for name, _ in seen}


def main(page: str) -> None:
    """Print the blocks of a page, each with what it prints."""
    with tempfile.TemporaryDirectory() as folder:
        for block, printed, wrong in play(Path(page), Path(folder)):
            if block.language in {"sh", "python", "sql"} or wrong:
                print(f"\033[1m--- line {block.line}: {block.language} {block.title}\033[0m\n{block.text}")
                print("\n".join(f"    {line}" for line in printed.splitlines()))
            if wrong:
                print(f"\033[31m{page}:{block.line}: {wrong}\033[0m")


if __name__ == "__main__":
    main(sys.argv[1])
