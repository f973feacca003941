"""What people and other programs say of sessions, and questions made of recorded sessions."""
