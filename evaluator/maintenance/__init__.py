"""Looking after a database: gaps in recordings, deletion, golden questions from sessions.

It stands on `grading` and what is below.
Begin with `lint.lint`.
"""
