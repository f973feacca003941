"""The APIs of judges, one module each."""
