"""Datasets of several formats: read, written, and converted into golden questions and sessions."""
