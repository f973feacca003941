"""The statements of `spangrade watch`."""
