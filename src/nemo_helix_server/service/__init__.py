"""What can be asked of the Jobs service. It checks, acts on the store, and answers."""
