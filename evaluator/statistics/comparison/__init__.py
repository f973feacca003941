"""Two runs compared: what differs, by how much, and which sessions flipped."""
