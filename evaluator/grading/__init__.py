"""Grading: sessions meet golden questions, metrics measure them, the policy decides."""
