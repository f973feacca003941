"""Stored grades, as views: the one definition of a session's verdict, which every list and page reads."""
