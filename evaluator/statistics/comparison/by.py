"""What two selections of sessions may differ by: `spangrade compare --by version 1.4 1.5`."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from spangrade.tracer.fields import FieldError

if TYPE_CHECKING:
    from spangrade.tracer.store import Store


class ComparedBy(StrEnum):
    """What tells the sessions of one side from those of the other."""

    VERSION = "version"
    PROMPT = "prompt"
    MODEL = "model"


_CONDITIONS = {
    ComparedBy.VERSION: "agent_version = {}",
    ComparedBy.PROMPT: "list_contains(prompts, {})",
    ComparedBy.MODEL: "list_contains(models, {})",
}


_UNRECORDED = {
    ComparedBy.VERSION: "agent_version IS NULL",
    ComparedBy.PROMPT: "len(coalesce(prompts::JSON::VARCHAR[], [])) = 0",
    ComparedBy.MODEL: "len(coalesce(models::JSON::VARCHAR[], [])) = 0",
}


def unrecorded(store: Store, by: str) -> int:
    """Return how many stored sessions record no version of the agent, no prompt, or no model."""
    query = f"SELECT count(*) FROM derived.sessions WHERE {_UNRECORDED[ComparedBy(by)]}"  # noqa: S608 (ours)
    return int(store.query(query)[0][0])


def condition(by: str, value: str) -> str:
    """Return the condition on sessions of a version of the agent, of a prompt, or of a model.

    Raises FieldError for another `by`.
    """
    if by not in set(ComparedBy):
        raise FieldError("by", f"expected {', '.join(tuple(ComparedBy)[:-1])} or {tuple(ComparedBy)[-1]}", by)
    from spangrade.tracer.store.sql import (
        text_literal,  # DuckDB takes 50 ms to import
    )

    return _CONDITIONS[ComparedBy(by)].format(text_literal(value))
