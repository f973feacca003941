"""Running an agent over golden questions, to be graded."""
