"""spangrade grades AI agents from the OpenTelemetry spans that they emit.

`spangrade.tracer` wraps agents and keeps their spans in DuckDB, `spangrade.converters` understands
what other instrumentations wrote, and `spangrade.evaluator` derives sessions from the spans and
grades them against reference data.
"""

__version__ = "0.1.0"
