"""The files of an audit: audit.json, audit.md and golden.diff."""

from __future__ import annotations

from pathlib import Path

from spangrade.evaluator.audit.printed import audit_json, audit_markdown
from spangrade.evaluator.audit.report import Audit
from spangrade.tracer.canonical_json import dumps
from spangrade.tracer.errors import InputError


def write_audit(audit: Audit, folder: Path) -> None:
    """Write the files of an audit to a folder. Raises InputError if one cannot be written."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "audit.json").write_text(dumps(audit_json(audit), indent=True), encoding="utf-8")
        (folder / "audit.md").write_text(audit_markdown(audit), encoding="utf-8")
        if audit.diff:
            (folder / "golden.diff").write_text(audit.diff, encoding="utf-8", newline="")
    except OSError as error:
        raise InputError(f"{folder}: cannot be written: {error.strerror or error}") from error
