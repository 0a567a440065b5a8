"""A small OpenAI-compatible server for models on this machine."""
