"""Collecting rollouts, keeping them, grading them and summing them up."""
