"""Grading code by running it with the tests of its task."""
