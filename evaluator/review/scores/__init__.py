"""Scores from outside of grading: from people, from incoming traces and from programs."""
