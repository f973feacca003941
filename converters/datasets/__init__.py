"""Datasets of other projects: read, written and converted into golden questions and sessions."""
