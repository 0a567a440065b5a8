"""Tools that a model may call: which there are, and how one is called."""
