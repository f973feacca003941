"""The models that judge: one module for each API."""
