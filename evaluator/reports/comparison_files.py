"""The files of a comparison: comparison.json, comparison.md and comparison.junit.xml."""

from __future__ import annotations

from pathlib import Path

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.evaluator.grading.run import Run
from spangrade.evaluator.reports.comparison import comparison_json, comparison_markdown
from spangrade.evaluator.reports.headline import as_markdown, head_of_comparison, head_of_run
from spangrade.evaluator.reports.junit import write_gates
from spangrade.evaluator.statistics.comparison.gate import Compared
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.store.stored import Stored


def write_comparison(
    compared: Compared, folder: Path, *, stored: Stored | None = None, run: Run | None = None
) -> None:
    """Write the files of a comparison to a folder. Raises InputError if one cannot be written.

    Where the second side is a `run` that has just been graded, its result heads comparison.md. With `stored`
    what was said before and now is there.
    """
    code = compared.exit_code()
    if run is None:
        head = head_of_comparison(compared, code, stored)
    else:
        head = head_of_run(run, compared, stored=stored, code=code if compared.gates else None)
    with replacing(folder) as new, writing(folder):
        create_text(new / "comparison.json", dumps(comparison_json(*compared), indent=True))
        create_text(new / "comparison.md", comparison_markdown(*compared, head=as_markdown(head)))
        name = f"spangrade compare {compared.comparison.first.label} {compared.comparison.second.label}"
        write_gates(compared.gates, new / "comparison.junit.xml", name)
