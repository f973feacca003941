"""A team's server: the receiver, grading as it happens and the pages as one service, and who may use it.

It stands on the core, by the rooms that it names, and imports no other app.
Begin with `start.serve`.
"""
