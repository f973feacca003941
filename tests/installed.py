"""What comes with spangrade alone, and how long it takes to start: `PYTHON tests/installed.py`.

It prints the megabytes and packages of each dependency in the environment of this Python, and those that it
alone brings. It fails if all have more than 110 MB, or if `import spangrade` takes 30 ms or `--help` 100 ms
of CPU beyond what Python itself takes.
"""

from __future__ import annotations

import re
import resource
import subprocess
import sys
from collections.abc import Iterable
from importlib.metadata import Distribution, distributions
from pathlib import Path

MAX_BYTES = 110_000_000
MAX_S = {"import spangrade": 0.03, "spangrade --help": 0.1}
TRIES = 10


def name_of(requirement: str) -> str:
    """Return the normalized name in a requirement."""
    return re.split(r"[^\w.-]", requirement, maxsplit=1)[0].lower().replace("_", "-").replace(".", "-")


INSTALLED = {name_of(one.name): one for one in distributions()}


def needed(packages: Iterable[str]) -> frozenset[str]:
    """Return these packages and all that they need, without extras, as far as they are installed."""
    seen: set[str] = set()
    left = [one for one in packages if one in INSTALLED]
    while left:
        seen.add(package := left.pop())
        left += [one for one in direct(INSTALLED[package]) if one in INSTALLED and one not in seen]
    return frozenset(seen)


def direct(package: Distribution) -> list[str]:
    """Return what a package needs without extras."""
    return [name_of(one) for one in package.requires or () if "extra ==" not in one]


def bytes_of(packages: Iterable[str]) -> int:
    """Return the size of the files of packages, as their records list them, without compiled modules."""
    paths = (Path(str(file.locate())) for one in packages for file in INSTALLED[one].files or ())
    return sum(path.stat().st_size for path in paths if path.suffix != ".pyc" and path.exists())


def cpu_s(*command: str) -> float:
    """Return the least CPU time of a command, of some tries."""
    found = []
    for _ in range(TRIES):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        found.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return min(found)


def main() -> int:
    """Print the tables; return the exit code."""
    ours = direct(INSTALLED["spangrade"])
    for one in sorted(ours):
        alone = needed([one]) - needed(other for other in ours if other != one)
        total, own = bytes_of(needed([one])) / 1e6, bytes_of(alone) / 1e6
        print(f"{one:40} {total:6.1f} MB {len(needed([one])):3} packages, alone {own:5.1f} MB {len(alone):3}")
    everything = needed(["spangrade"])
    size = bytes_of(everything)
    print(f"{'all':40} {size / 1e6:6.1f} MB {len(everything):3} packages")
    python = sys.executable
    bare = cpu_s(python, "-c", "pass")
    times = {
        "import spangrade": cpu_s(python, "-c", "import spangrade") - bare,
        "spangrade --help": cpu_s(python, "-m", "spangrade", "--help") - bare,
    }
    for what, seconds in times.items():
        print(f"{what}: {seconds:.3f} s of CPU, beside {bare:.3f} s of Python's own")
    return int(size > MAX_BYTES or any(times[what] > MAX_S[what] for what in times))


if __name__ == "__main__":
    sys.exit(main())
