"""What drives an agent: a run over golden questions, a test, a server, a simulated user, a replay.

It stands on `settings` and what is below.
Begin with `run.run_agent`.
"""
