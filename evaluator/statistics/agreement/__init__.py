"""Whether the verdicts of a metric, such as a judge's, are those that people give."""
