"""What a notebook shows of a value: HTML of the part that registers it for the value's class."""

from __future__ import annotations

from spangrade.tracer.base.plugins import plugins


def notebook_html(value: object) -> str | None:
    """Return a value as HTML, by the entry points `spangrade.notebook`; None, for its text, without one."""
    for plugin in plugins("spangrade.notebook"):
        if plugin.name == type(value).__name__:
            return str(plugin.load()(value))
    return None
