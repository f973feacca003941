"""What runs and stored scores show: intervals, comparisons, repeats, trends, agreement with people."""
