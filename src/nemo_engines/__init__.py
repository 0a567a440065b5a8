"""Drivers of the training libraries; they run in the interpreters of those libraries."""
