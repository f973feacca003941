"""Make a process as much like one on Windows as a POSIX system allows: with this folder on PYTHONPATH.

What only POSIX has is hidden: modules, functions of `os`, signals, `fork`, handlers of signals in an event
loop. Clocks move every 15.6 ms, names that Windows forbids cannot be made, processes are spawned.
$WITHOUT_POSIX names a file that has a line for each such name.

Not simulated: line ends, drives and `\\`, files that cannot be removed while they are open, `msvcrt`.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import time
from pathlib import Path

_MODULES = {"fcntl", "grp", "pty", "pwd", "resource", "termios", "tty"}
_TICK_NS = 15_625_000
_FORBIDDEN = re.compile(
    r'[<>:"|?*\x00-\x1f]|[. ]$|^(con|prn|aux|nul|com[1-9]|lpt[1-9])(\..*)?$', re.IGNORECASE
)
_OURS = os.environ.get("WITHOUT_POSIX_BELOW", "\n")  # the folder in which names are looked at


class _Hide:
    def find_spec(self, name: str, path: object = None, target: object = None) -> None:
        if name.partition(".")[0] in _MODULES:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)


def _audit(event: str, arguments: tuple[object, ...]) -> None:
    at = {"open": 0, "os.mkdir": 0, "os.rename": 1}.get(event)
    if at is None or not isinstance(arguments[at], str):
        return
    if event == "open" and not (isinstance(arguments[2], int) and arguments[2] & os.O_CREAT):
        return
    path = os.path.abspath(str(arguments[at]))  # noqa: PTH100 (links stay)
    if not path.startswith(_OURS):
        return
    for part in path.removeprefix(_OURS).split("/"):
        if _FORBIDDEN.search(part):
            with Path(os.environ["WITHOUT_POSIX"]).open("a", encoding="utf-8") as file:
                file.write(f"{part}\n")
            raise OSError(22, "Invalid argument", path)


def _ticking(name: str) -> None:
    precise = getattr(time, f"{name}_ns")
    setattr(time, f"{name}_ns", lambda: precise() // _TICK_NS * _TICK_NS)
    setattr(time, name, lambda: precise() // _TICK_NS * _TICK_NS / 1e9)


import asyncio.unix_events  # noqa: E402 (before what it needs is hidden)
import multiprocessing  # noqa: E402
import subprocess  # noqa: E402, F401


def _no_handler(*_: object) -> None:
    raise NotImplementedError


asyncio.unix_events._UnixSelectorEventLoop.add_signal_handler = _no_handler  # type: ignore[method-assign, assignment]
for module in _MODULES:
    sys.modules.pop(module, None)
sys.meta_path.insert(0, _Hide())  # type: ignore[arg-type]
for function in (
    "fork",
    "forkpty",
    "register_at_fork",
    "getuid",
    "geteuid",
    "fchmod",
    "fchown",
    "killpg",
    "setsid",
    "sched_getaffinity",
    "statvfs",
    "sysconf",
    "getloadavg",
    "O_NOFOLLOW",
    "O_DIRECTORY",
    "O_NONBLOCK",
):
    if hasattr(os, function):
        delattr(os, function)
for number in ("SIGHUP", "SIGKILL", "SIGALRM", "SIGUSR1", "SIGCHLD"):
    delattr(signal, number)
time.tzset = None  # type: ignore[assignment]
del time.tzset
for clock in ("time", "monotonic"):
    _ticking(clock)
multiprocessing.set_start_method("spawn")
if _OURS != "\n":
    sys.addaudithook(_audit)
