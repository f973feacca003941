"""What coding agents ask of a database over the Model Context Protocol."""
