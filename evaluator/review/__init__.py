"""Labels and scores of people and programs, and questions made of recorded sessions."""
