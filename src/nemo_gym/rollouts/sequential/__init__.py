"""Stopping a run once its question is answered: a seeded order of the tasks, and intervals that may be looked
at after every one of them.
"""
