"""A metric over time, versions of the agent, or models."""
