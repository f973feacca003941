"""`spangrade schema`."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from spangrade.evaluator.cli.output import print_json


class Schema(StrEnum):
    """What has a JSON Schema."""

    GOLDEN = "golden"


def schema(
    of: Annotated[Schema, typer.Argument(help="What to print the schema of.")],  # noqa: ARG001 (there is one)
) -> None:
    """Print the JSON Schema of golden files, with a description and an example of every field."""
    from spangrade.converters.datasets.golden_schema import golden_schema

    print_json(golden_schema())
