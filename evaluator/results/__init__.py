"""Stored grades, as views: the one definition of a session's verdict, which every list and page reads.

It stands on `converters` and `tracer`.
Begin with `views.with_views`.
"""
