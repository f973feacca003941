"""Conversations under test: agents are run turn by turn, and what they did is compared."""
