"""The files of a comparison: comparison.json, comparison.md and comparison.junit.xml."""

from __future__ import annotations

from pathlib import Path

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.evaluator.reports.comparison import comparison_json, comparison_markdown
from spangrade.evaluator.reports.junit import write_gates
from spangrade.evaluator.statistics.comparison.gate import Compared
from spangrade.tracer.canonical_json import dumps


def write_comparison(compared: Compared, folder: Path) -> None:
    """Write the files of a comparison to a folder. Raises InputError if one cannot be written."""
    with replacing(folder) as new, writing(folder):
        create_text(new / "comparison.json", dumps(comparison_json(*compared), indent=True))
        create_text(new / "comparison.md", comparison_markdown(*compared))
        name = f"spangrade compare {compared.comparison.first.label} {compared.comparison.second.label}"
        write_gates(compared.gates, new / "comparison.junit.xml", name)
