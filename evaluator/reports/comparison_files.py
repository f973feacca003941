"""The files of a comparison: comparison.json, comparison.md and comparison.junit.xml."""

from __future__ import annotations

from pathlib import Path

from spangrade.evaluator.reports.comparison import comparison_json, comparison_markdown
from spangrade.evaluator.reports.junit import write_gates
from spangrade.evaluator.statistics.comparison.gate import Compared
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import InputError


def write_comparison(compared: Compared, folder: Path) -> None:
    """Write the files of a comparison to a folder. Raises InputError if one cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = dumps(comparison_json(*compared), indent=True)
        (folder / "comparison.json").write_text(text, encoding="utf-8")
        (folder / "comparison.md").write_text(comparison_markdown(*compared), encoding="utf-8")
        name = f"spangrade compare {compared.comparison.first.label} {compared.comparison.second.label}"
        write_gates(compared.gates, folder / "comparison.junit.xml", name)
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
