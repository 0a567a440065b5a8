"""Interpreters with packages of their own, whose pins clash with ours: made once, then found."""
