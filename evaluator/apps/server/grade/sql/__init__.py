"""The statements of `spangrade serve --only grade`."""
