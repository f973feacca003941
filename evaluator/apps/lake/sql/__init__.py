"""The statements of an update of a lake."""
