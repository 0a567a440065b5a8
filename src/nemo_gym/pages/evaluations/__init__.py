"""The pages of one evaluation: its jobs, its scores, its rollouts, and two of them side by side."""
