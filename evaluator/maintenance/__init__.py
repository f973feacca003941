"""Looking after a database: gaps in recordings, deletion, golden questions from sessions."""
