"""From results to scores, and from two runs to their difference."""
