"""Workspaces, secrets and access tokens, as they travel between client and service."""
