"""The dialects: a module for each family of instrumentations, with the value `DIALECT`."""
