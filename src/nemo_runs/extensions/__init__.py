"""What other installed packages add."""
