"""Models by name: whole ones, and adapters that are attached to one."""
