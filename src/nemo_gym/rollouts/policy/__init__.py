"""The policy model: requests to an OpenAI-compatible server, and what its answers mean."""
