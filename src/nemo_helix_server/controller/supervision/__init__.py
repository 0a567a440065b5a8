"""What becomes of a pass when an executor fails, or takes long."""
