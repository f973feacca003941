"""The files of an audit: audit.json, audit.md and golden.diff."""

from __future__ import annotations

from pathlib import Path

from spangrade.converters.datasets.files import create_text, replacing, writing
from spangrade.evaluator.audit.printed import audit_json, audit_markdown
from spangrade.evaluator.audit.report import Audit
from spangrade.tracer.canonical_json import dumps


def write_audit(audit: Audit, folder: Path) -> None:
    """Write the files of an audit to a folder. Raises InputError if one cannot be written."""
    with replacing(folder) as new, writing(folder):
        create_text(new / "audit.json", dumps(audit_json(audit), indent=True))
        create_text(new / "audit.md", audit_markdown(audit))
        if audit.diff:
            create_text(new / "golden.diff", audit.diff)
