"""Conversations as tests: run an agent turn by turn and compare its answers and tool calls."""
