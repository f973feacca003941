"""What a process and those that it started take, from Linux's /proc."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_TICKS_PER_S = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def tree(pid: int) -> list[int]:
    """Return the ids of a process and of those that it started."""
    children: list[str] = []
    with suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            children += (task / "children").read_text().split()
    return [pid, *(one for child in children for one in tree(int(child)))]


def pss_mb(pid: int) -> float:
    """Return the proportional set size of a process in MB; 0 of one that has ended."""
    with suppress(OSError, ValueError, StopIteration):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("Pss:")).split()[1]) / 1e3
    return 0.0


def cpu_s(pid: int) -> float:
    """Return the CPU seconds, user and system, that a process has taken; 0 of one that has ended."""
    with suppress(OSError, IndexError):
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S
    return 0.0
