"""Grading: match sessions to golden questions, run the metrics, apply the policy.

It stands on `metrics` and what is below.
Begin with `grade.grade`.
"""
