"""The one loader of entry points, our own and other packages', found by the name of their group."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from functools import cache
from importlib.metadata import Distribution, EntryPoint, EntryPoints, entry_points
from typing import Any

from spangrade.tracer.base.errors import InputError


@dataclass(frozen=True, slots=True)
class Plugin:
    """One installed entry point, not loaded yet."""

    point: EntryPoint

    @property
    def name(self) -> str:
        """The entry point's name."""
        return self.point.name

    @property
    def brought_by(self) -> str:
        """The distribution that brings the entry point and its version, as `spangrade 0.1.0`."""
        return _name_and_version(self.point.dist) if self.point.dist else ""

    def load(self, kind: type = object) -> Any:
        """Import and return the object; raises InputError if that fails or it is not a `kind`."""
        try:
            loaded = self.point.load()
        except (Exception, SystemExit) as error:  # third-party code runs
            reason = f"{type(error).__name__}: {error}" if isinstance(error, SystemExit) else str(error)
            raise self.error(f"cannot be loaded: {reason}") from error
        if not isinstance(loaded, kind):
            raise self.error(f"expected a {kind.__name__}, found {type(loaded).__name__}")
        return loaded

    def error(self, reason: str) -> InputError:
        """Return an error that names the entry point, its group and the distribution that brings it."""
        brought_by = f", installed by {self.brought_by}" if self.brought_by else ""
        return InputError(
            f'entry point "{self.name}" ({self.point.value}) in {self.point.group}{brought_by}: {reason}'
        )


@cache  # both read its metadata again each time
def _name_and_version(distribution: Distribution) -> str:
    return f"{distribution.name} {distribution.version}"


def plugins(group: str) -> list[Plugin]:
    """Return the entry points of a group by name, not loaded: load only those that you need."""
    found = _installed(group, tuple(sys.path))
    return [Plugin(point) for point in sorted(found, key=lambda each: (each.name, each.value))]


def plugin_named(group: str, name: str) -> Plugin | None:
    """Return the entry point of a group by its name, not loaded; the first of several, None without one."""
    return next((one for one in plugins(group) if one.name == name), None)


@cache  # to read the metadata of 100 distributions takes 3 ms
def _installed(group: str, path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 (where it looks)
    return entry_points(group=group)


def load_plugins(group: str, kind: type = object) -> dict[str, Any]:
    """Load all entry points of a group, in the order of their names.

    Raises InputError if one cannot be loaded, is not an instance of `kind`, or has the name of another.
    """
    loaded: dict[str, Any] = {}
    for plugin in plugins(group):
        if plugin.name in loaded:
            raise plugin.error("another entry point has the same name")
        loaded[plugin.name] = plugin.load(kind)
    return loaded


def notebook_html(value: object) -> str | None:
    """Return a value as HTML, by the entry points `spangrade.notebook`; None, for its text, without one."""
    plugin = plugin_named("spangrade.notebook", type(value).__name__)
    return None if plugin is None else str(plugin.load()(value))
