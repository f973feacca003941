"""Looking after a database: what recordings lack, deletion, golden questions from sessions."""
