"""What coding agents ask of a database over the Model Context Protocol.

It stands on the core, by the rooms that it names, and imports no other app.
Begin with `tools.Tools`.
"""
