"""What drives an agent: a run over golden questions, a test, a server, a simulated user, a replay."""
