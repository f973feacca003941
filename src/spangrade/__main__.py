"""`python -m spangrade`: the command line."""

from spangrade.evaluator.cli import run

run()
