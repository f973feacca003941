"""Foreign formats: spans as other instrumentations write them, and datasets of other projects.

It imports `tracer`, and nothing of `evaluator`.
Begin with `spans.registry.observe`.
"""
