"""The derived tables, the views over them, and the statements that bring them up to date."""
