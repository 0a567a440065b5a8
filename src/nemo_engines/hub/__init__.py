"""A hub of models: fetching from it, and putting models into it."""
