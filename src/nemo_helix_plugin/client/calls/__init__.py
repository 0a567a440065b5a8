"""The calls of the service: what is sent, and what the answer becomes."""
