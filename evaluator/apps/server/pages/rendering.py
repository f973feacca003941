"""Templates into HTML: those of this folder, which stand on those of reports."""

from __future__ import annotations

from pathlib import Path

from spangrade.evaluator.reports.html.rendering import add_templates, render

__all__ = ["render"]

add_templates(Path(__file__).with_name("templates"))
