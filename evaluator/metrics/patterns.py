"""Search regular expressions of a dataset with a time limit, past which the result is unknown.

Python's `re` cannot be interrupted in a thread, so a search that may take long runs in a process of its own,
which is ended at the limit.
"""

from __future__ import annotations

import atexit
import json
import os
import re
import subprocess
import sys
from contextlib import suppress
from functools import lru_cache
from threading import Lock, Timer

LIMIT_S = 1.0
_LONGEST_HERE = 2_000  # characters of a text in which this process itself searches
# A pattern with one of these at most takes a time that is quadratic in the text.
_REPEAT = re.compile(r"[*+{|]|(?<!(?<!\\)\()\?")  # the "?" of "(?" repeats nothing
_SEARCHES = """
import json, re, sys
for line in sys.stdin:
    pattern, text = json.loads(line) if line.strip() else ("", "")
    print(int(re.search(pattern, text) is not None), flush=True)
"""


def matches_pattern(pattern: str, text: str) -> bool | None:
    """Return whether a text has a match of a pattern; None if the search takes longer than a second."""
    if len(text) <= _LONGEST_HERE and len(_REPEAT.findall(pattern)) <= 1:
        return re.search(pattern, text) is not None
    return _search(pattern, text)


@lru_cache(256)
def _search(pattern: str, text: str) -> bool | None:
    return _SEARCHER.search(pattern, text)


class _Searcher:
    """A process that searches, started when it is first needed, and again after it was ended."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._process: subprocess.Popen[str] | None = None

    def search(self, pattern: str, text: str) -> bool | None:
        """Return whether a text has a match of a pattern, None past the limit."""
        with self._lock:
            if self._process is None:
                self._process = _start()
            process = self._process
            timer = Timer(LIMIT_S, process.kill)
            timer.start()
            try:
                answer = _asked(process, json.dumps([pattern, text]))
            except BrokenPipeError:
                answer = ""
            finally:
                timer.cancel()
            if not answer:
                self.close()
                return None
            return answer == "1"

    def close(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            with suppress(BrokenPipeError):
                process.communicate()

    def forget(self) -> None:
        """Leave the process to the process that this one was forked from."""
        self._lock, self._process = Lock(), None


def _start() -> subprocess.Popen[str]:
    process = subprocess.Popen(  # noqa: S603 (this interpreter, with a program of ours)
        [sys.executable, "-I", "-S", "-c", _SEARCHES],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        encoding="utf-8",
    )
    _asked(process, "")  # its start is not a part of the first search
    return process


def _asked(process: subprocess.Popen[str], line: str) -> str:
    """Return the answer to a line, empty if the process has ended."""
    if process.stdin is None or process.stdout is None:
        return ""
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    return process.stdout.readline().strip()


_SEARCHER = _Searcher()
atexit.register(_SEARCHER.close)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_SEARCHER.forget)
