"""Fail if the source distribution or the wheel is not what it should be: `check_archives.py DIST [SECOND]`.

Run in the repository. Each has every file that Git tracks and that belongs to it: an include list in
pyproject.toml that forgets a folder builds without an error. No archive has tests, each has the licence, none
is larger than its bound; the long description has no link that is only found in a checkout; and a page that
the code names is in the wheel. SECOND is a folder of a second build, with the same bytes.
"""

from __future__ import annotations

import hashlib
import re
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterator
from email.parser import Parser
from pathlib import Path

PACKAGES = ("tracer/", "converters/", "evaluator/", "datasets/")
SOURCE = "src/spangrade/"
SYMLINK = "120000"
# What only a clone has.
IN_NO_SDIST = re.compile(r"(tests|\.ci|\.github|docs/notes)/|docs/.*\.png$")
# 1,693 kB and 1,290 kB in November 2026; the aim for the wheel is 1,600 kB.
MAX_BYTES = {".whl": 1_800_000, ".gz": 1_500_000}


def tracked_files() -> set[str]:
    """Return the paths of all tracked files, without the symbolic links."""
    listing = subprocess.run(["git", "ls-files", "-s"], check=True, capture_output=True, text=True).stdout
    return {
        path
        for mode_id_stage, path in (line.split("\t") for line in listing.splitlines())
        if not mode_id_stage.startswith(SYMLINK)
    }


def problems(dist: Path, second: Path | None) -> Iterator[str]:
    """Yield what is wrong with the archives in a folder."""
    tracked = tracked_files()
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = {name: archive.read(name) for name in archive.namelist()}
    expected = {f"spangrade/{path}" for path in tracked if path.startswith(PACKAGES)}
    expected |= {f"spangrade/{path.removeprefix(SOURCE)}" for path in tracked if path.startswith(SOURCE)}
    expected |= {f"spangrade/{path}" for path in tracked if re.fullmatch(r"docs/[^/]+\.md", path)}
    in_a_clone = {path for path in tracked if IN_NO_SDIST.match(path)}
    yield from (f"{sdist.name} lacks {path}" for path in sorted(tracked - in_a_clone - in_sdist))
    yield from (f"{sdist.name} has {path}" for path in sorted(in_a_clone & in_sdist))
    yield from (f"{wheel.name} lacks {path}" for path in sorted(expected - in_wheel.keys()))
    for name, text in in_wheel.items():
        if name.endswith(".py"):
            named = {one.decode() for one in re.findall(rb"(?<![\w/])docs/\w+\.md", text)}
            missing = sorted(page for page in named if f"spangrade/{page}" not in in_wheel)
            yield from (f"{name} names {page}, which the wheel lacks" for page in missing)
    (information,) = {name.partition("/")[0] for name in in_wheel if ".dist-info/" in name}
    if f"{information}/licenses/LICENSE" not in in_wheel:
        yield f"{wheel.name} lacks LICENSE"
    description = Parser().parsestr(in_wheel[f"{information}/METADATA"].decode()).get_payload()
    for target in re.findall(r"\]\(([^)]*)\)", str(description)):
        if not target.startswith(("https://", "#")):
            yield f"the long description links to {target}"
    for archive_file in (sdist, wheel):
        size = archive_file.stat().st_size
        print(f"{archive_file.name}: {size:,} bytes")
        if size > MAX_BYTES[archive_file.suffix]:
            yield f"{archive_file.name} has {size:,} bytes, more than {MAX_BYTES[archive_file.suffix]:,}"
        if second and digest(archive_file) != digest(second / archive_file.name):
            yield f"{archive_file.name} has other bytes when it is built again"
    print(f"{len(tracked - in_a_clone)} files expected in the sdist, {len(expected)} in the wheel")


def digest(path: Path) -> str:
    """Return the SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def main(dist: Path, second: Path | None = None) -> int:
    """Print what is wrong with the archives; return the exit code."""
    found = list(problems(dist, second))
    for problem in found:
        print(problem, file=sys.stderr)
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main(*map(Path, sys.argv[1:])))
