"""Foreign shapes into ours: what other instrumentations write on spans, and other files of sessions."""
