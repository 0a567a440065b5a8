"""A model that answers: the base model and what was trained from it, over an OpenAI-compatible API."""
