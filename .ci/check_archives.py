"""Fail if the source distribution or the wheel lacks a file that Git tracks: `check_archives.py DIST`.

Run in the repository. An include list in pyproject.toml that forgets a folder builds without an error.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGES = ("tracer/", "converters/", "evaluator/", "datasets/")
SOURCE = "src/spangrade/"
SYMLINK = "120000"


def tracked_files() -> set[str]:
    """Return the paths of all tracked files, without the symbolic links."""
    listing = subprocess.run(["git", "ls-files", "-s"], check=True, capture_output=True, text=True).stdout
    return {
        path
        for mode_id_stage, path in (line.split("\t") for line in listing.splitlines())
        if not mode_id_stage.startswith(SYMLINK)
    }


def main(dist: Path) -> int:
    """Compare both archives with what Git tracks; return the exit code."""
    tracked = tracked_files()
    (sdist,), (wheel,) = dist.glob("*.tar.gz"), dist.glob("*.whl")
    with tarfile.open(sdist) as archive:
        in_sdist = {name.partition("/")[2] for name in archive.getnames()}
    in_wheel = set(zipfile.ZipFile(wheel).namelist())
    expected_in_wheel = {f"spangrade/{path}" for path in tracked if path.startswith(PACKAGES)}
    expected_in_wheel |= {
        f"spangrade/{path.removeprefix(SOURCE)}" for path in tracked if path.startswith(SOURCE)
    }
    expected_in_wheel |= {f"spangrade/{path}" for path in tracked if re.fullmatch(r"docs/[^/]+\.md", path)}
    missing = {sdist.name: tracked - in_sdist, wheel.name: expected_in_wheel - in_wheel}
    for name, paths in missing.items():
        for path in sorted(paths):
            print(f"{name} lacks {path}", file=sys.stderr)
    print(f"{len(tracked)} files expected in the sdist, {len(expected_in_wheel)} in the wheel")
    return int(any(missing.values()))


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
