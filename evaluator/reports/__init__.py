"""Reports: sessions and runs as tables for people, and as JSON for programs.

It stands on `agents` and what is below.
Begin with `headline.head_of_run`.
"""
