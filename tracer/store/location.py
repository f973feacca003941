"""Where a database is: one path for one file, by whatever link it is named."""

from __future__ import annotations

import os
from pathlib import Path


def database_file(path: str | Path) -> Path:
    """Return the path of the database's file: the target of a symbolic link, else the path as it is.

    Its spool, its locks and its compacted copy are beside that file.
    """
    path = Path(path)
    return Path(os.path.realpath(path)) if path.is_symlink() else path
