"""spangrade grades AI agents from the OpenTelemetry spans that they emit.

`spangrade.tracer` wraps agents and keeps their spans in DuckDB, `spangrade.converters` understands
what other instrumentations wrote, and `spangrade.evaluator` derives sessions from the spans and
grades them against reference data.
"""

from pathlib import Path

__version__ = "0.1.0"

# In a checkout the packages stand at the repository's root. The links beside this file serve mypy,
# import-linter and editors; without links (Git with core.symlinks=false, a source distribution) this
# finds the packages.
_root = Path(__file__).resolve().parents[2]
if (_root / "tracer" / "semconv.py").is_file():
    __path__.append(str(_root))
