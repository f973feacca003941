"""The dialects: a module for each family of instrumentations, with `claims(span)` and `read(span, logs)`."""
