"""Running code that nobody has read: without root, network or the user's files, within limits."""
