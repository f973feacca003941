"""What a model is told beside the tools: the instructions, two prompts and a skill, each a file here."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import Field

SKILL, INSTRUCTIONS = "SKILL", "instructions"
_BEFORE = "the newest run before it that `runs` lists for the same dataset"


def guide(name: str, **values: str) -> str:
    """Return the text of `NAME.md` with values in the place of their names."""
    text = (Path(__file__).parent / f"{name}.md").read_text(encoding="utf-8")
    for key, value in values.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def why_worse(
    run: Annotated[str, Field(description="The run that is worse.")] = "latest",
    baseline: Annotated[str, Field(description="A run before it; without one, the newest before.")] = "",
) -> str:
    """Find out why a run got worse."""
    return guide("why_worse", run=run, before=f"the run `{baseline}`" if baseline else _BEFORE)


def write_metric(
    goal: Annotated[str, Field(description="What it should measure, in a sentence.")],
) -> str:
    """Write a metric for a goal."""
    return guide("write_metric", goal=goal)
