"""The `nemo` program, the Python SDK and the types that travel between client and service."""
