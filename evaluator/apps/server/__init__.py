"""A team's server: the receiver, `watch` and the pages as one service, and who may use it."""
