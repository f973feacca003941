"""How spangrade was installed, and the command that adds an extra to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spangrade.tracer.base.errors import InputError

if TYPE_CHECKING:
    from importlib.metadata import Distribution


@contextmanager
def needing(what: str, *extras: str) -> Iterator[None]:
    """Import what extras bring; raise InputError, which says how to install them, if one is missing."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise InputError(f"{what} needs {error.name}: {to_install(*extras)}") from None


def is_installed(module: str) -> bool:
    """Return whether a module can be imported, by its dotted name; what is above it is imported."""
    try:
        return find_spec(module) is not None
    except ModuleNotFoundError:
        return False


def to_install(*extras: str) -> str:
    """Return the command that adds extras to this installation, such as `pip install '/srv/spangrade[view]'`.

    It names what spangrade was installed from, by the record that installers leave (PEP 610). Without one, or
    where that is gone, it names the packages of the extras: an index may have another package of this name.
    """
    from importlib import metadata  # takes 20 ms to import

    try:
        installed = metadata.distribution("spangrade")
    except metadata.PackageNotFoundError:
        return f"pip install '.[{','.join(extras)}]'"
    what = _source(json.loads(installed.read_text("direct_url.json") or "{}"), ",".join(extras))
    return f"pip install {what or ' '.join(sorted(_packages(installed, extras)))}"


def _source(record: Mapping[str, Any], extras: str) -> str | None:
    """Return what to install in place of the package's name, None if nobody knows or it is gone."""
    from urllib.parse import urlsplit
    from urllib.request import url2pathname

    url = record.get("url", "")
    path = Path(url2pathname(urlsplit(url).path))
    if url.startswith("file:") and not path.exists():
        return None
    if "dir_info" in record:
        return f"{'-e ' if record['dir_info'].get('editable') else ''}'{path}[{extras}]'"
    if version := record.get("vcs_info"):
        url = f"{version['vcs']}+{url}@{version['commit_id']}"
    return f"'spangrade[{extras}] @ {url}'" if url else None


def _packages(installed: Distribution, extras: tuple[str, ...]) -> Iterator[str]:
    for text in installed.requires or ():
        package, _, marker = text.partition(";")
        if set(re.findall(r"extra == ['\"](\w+)['\"]", marker)) & set(extras):
            yield f"'{package.strip()}'"
