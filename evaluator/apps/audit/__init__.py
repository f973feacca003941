"""Mutation testing of evals: would a golden dataset and its gates notice if the agent broke?

It stands on the core, by the rooms that it names, and imports no other app.
Begin with `audit.audited_sessions`.
"""
