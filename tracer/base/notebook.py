"""What a notebook shows of a value: HTML of the part that registers it for the value's class."""

from __future__ import annotations

from spangrade.tracer.base.plugins import plugin_named


def notebook_html(value: object) -> str | None:
    """Return a value as HTML, by the entry points `spangrade.notebook`; None, for its text, without one."""
    plugin = plugin_named("spangrade.notebook", type(value).__name__)
    return None if plugin is None else str(plugin.load()(value))
