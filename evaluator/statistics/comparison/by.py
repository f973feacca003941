"""What two selections of sessions may differ by: `spangrade compare --by version 1.4 1.5`."""

from __future__ import annotations

from enum import StrEnum

from spangrade.evaluator.results.origin import one_of


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
