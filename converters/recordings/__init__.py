"""Other programs' recordings of spans as spans: one module per format, found as `spangrade.readers`."""
