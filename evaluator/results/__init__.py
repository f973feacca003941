"""What grades stored, as views: the one definition of a session's verdict, which all that shows one reads."""
