"""What runs and stored scores show: intervals, comparisons, repeats, trends, agreement with people.

It stands on `grading` and what is below.
Begin with `comparison.compare.compare`.
"""
