"""The modes of new files and folders, 0600 and 0700 less the user's umask, and the user's cache folder.

A command sets the umask of its process, which holds for everything that it writes. Inside an agent's process
the umask stays: what the tracer creates gets its mode at once there, and what DuckDB creates right after it.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from spangrade.tracer.base.errors import InputError

VARIABLE = "SPANGRADE_UMASK"
_DEFAULT = 0o077
FOLDER_VARIABLE = "SPANGRADE_CACHE_DIR"


def umask(setting: str | None = None) -> int:
    """Return the umask that a text in octal says, or $SPANGRADE_UMASK, or 077. Raises InputError."""
    text = setting or os.environ.get(VARIABLE) or f"{_DEFAULT:03o}"
    try:
        mask = int(text, 8)
    except ValueError:
        mask = -1
    if not 0 <= mask <= 0o777:
        raise InputError(f"umask is {text!r}: expected three octal digits such as 077 or 027")
    return mask


def set_umask(setting: str | None = None) -> None:
    """Set the umask of this process, and of the commands that it starts. Raises InputError."""
    os.umask(umask(setting))
    if setting:
        os.environ[VARIABLE] = setting


def file_mode() -> int:
    """Return the mode to create a file with; the process's own umask may take more away."""
    return 0o666 & ~umask()


def folder_mode() -> int:
    """Return the mode to create a folder with."""
    return 0o777 & ~umask()


def restrict(path: Path) -> None:
    """Remove the permissions that a new file should not have."""
    _change(path, stat.S_IMODE(path.stat().st_mode) & file_mode())


def restrict_like(path: Path, model: Path) -> None:
    """Give a file, if it is there, the mode of another one."""
    with suppress(FileNotFoundError):
        _change(path, stat.S_IMODE(model.stat().st_mode))


def _change(path: Path, mode: int) -> None:
    if stat.S_IMODE(path.stat().st_mode) != mode:
        with suppress(PermissionError):  # another user's file
            path.chmod(mode)


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
