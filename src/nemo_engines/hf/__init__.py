"""Driving the trainers of TRL, and of what is built on them: one class for several engines."""
