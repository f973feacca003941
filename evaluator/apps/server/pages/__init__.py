"""The pages of `spangrade view`, and the same pages as files."""
