"""The agents under test: how each kind is spoken to, and how what it hands back is read."""

from spangrade.evaluator.conversation.agents.adapter import Adapter, Answer, Reply, converse

__all__ = ["Adapter", "Answer", "Reply", "converse"]
