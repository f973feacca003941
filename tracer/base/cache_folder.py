"""The user's cache folder: verdicts of judges, prices, compiled templates."""

from __future__ import annotations

import os
from pathlib import Path

from spangrade.tracer.base.errors import InputError

FOLDER_VARIABLE = "SPANGRADE_CACHE_DIR"


def cache_folder() -> Path:
    """Return `$SPANGRADE_CACHE_DIR`, else `$XDG_CACHE_HOME/spangrade`, else `~/.cache/spangrade`.

    It is never the current directory: a cloned repository could bring its contents along.

    Raises:
        InputError: the user has no home folder.
    """
    if folder := os.environ.get(FOLDER_VARIABLE):
        return Path(folder)
    base = Path(os.environ.get("XDG_CACHE_HOME", ""))
    if not base.is_absolute():  # as the XDG specification has it
        try:
            base = Path.home() / ".cache"
        except RuntimeError as error:
            raise InputError(f"no home folder for the cache: set {FOLDER_VARIABLE}") from error
    return base / "spangrade"
