"""How the jobs of a benchmark ended, and whether another one follows."""
