"""Rows of training data: read, checked, written as tokens, and marked where they are learned."""
