"""Labels and scores of people and programs, and questions made of recorded sessions.

It stands on `grading` and what is below.
Begin with `session_to_golden.question_of`.
"""
