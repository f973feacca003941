"""`python -m spangrade.evaluator.cli`."""

from spangrade.evaluator.cli import main

main()
