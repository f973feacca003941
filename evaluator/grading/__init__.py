"""Grading: match sessions to golden questions, run the metrics, apply the policy."""
