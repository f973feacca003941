"""Reports of a grading run."""
