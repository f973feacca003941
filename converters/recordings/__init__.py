"""Other programs' recordings of spans as spans: one module per format, found as `spangrade.readers`.

It imports `tracer` and `converters.spans`.
Begin with `zipkin.read`.
"""
