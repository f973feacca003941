"""Adapters for the agents under test: how each kind is called, and how its answer is read."""

from spangrade.evaluator.agents.adapters.adapter import Answer, Reply, converse

__all__ = ["Answer", "Reply", "converse"]
