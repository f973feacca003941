"""Hold an expected conversation with an agent, and check each answer: the runner, and how it fails."""

from spangrade.evaluator.agents.expected_conversation import (
    ConversationMismatch,
    ConversationRunner,
    RuleBroken,
)

__all__ = ["ConversationMismatch", "ConversationRunner", "RuleBroken"]
