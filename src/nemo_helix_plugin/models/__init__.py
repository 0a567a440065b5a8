"""Models by name: whole ones, and adapters."""
