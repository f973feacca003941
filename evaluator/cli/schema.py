"""`spangrade schema`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from spangrade.evaluator.cli.output import print_json
from spangrade.tracer.base.fields import REQUIRED, argument


class Schema(StrEnum):
    """What has a JSON Schema."""

    GOLDEN = "golden"


@dataclass(frozen=True, slots=True, kw_only=True)
class SchemaOptions:
    """What is described."""

    of: Schema = argument(REQUIRED, "What to print the schema of.")


def schema(described: SchemaOptions) -> None:  # noqa: ARG001 (there is one schema)
    """Print the JSON Schema of golden files, with a description and an example of every field."""
    from spangrade.converters.datasets.golden_schema import golden_schema

    print_json(golden_schema())
