"""How a function of the calling program grades."""
