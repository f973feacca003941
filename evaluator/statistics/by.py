"""What `spangrade trend` groups sessions by, and what the two sides of `compare --by` differ by."""

from __future__ import annotations

from enum import StrEnum

from spangrade.evaluator.results.origin import one_of


class By(StrEnum):
    """What sessions are grouped by."""

    DAY = "day"
    VERSION = "version"
    PROMPT = "prompt"
    MODEL = "model"


class ComparedBy(StrEnum):
    """The property that distinguishes the sessions of the two sides."""

    VERSION = "version"
    PROMPT = "prompt"
    MODEL = "model"


_CONDITIONS = {
    ComparedBy.VERSION: "agent_version = {}",
    ComparedBy.PROMPT: "list_contains(prompts, {})",
    ComparedBy.MODEL: "list_contains(models, {})",
}


def chosen_by(by: str, value: str) -> str:
    """Return the condition on sessions of a version of the agent, of a prompt, or of a model.

    Raises FieldError for another `by`.
    """
    chosen = one_of(ComparedBy, by, "by")
    from spangrade.tracer.store.sql import text_literal  # DuckDB takes 50 ms to import

    return _CONDITIONS[chosen].format(text_literal(value))
