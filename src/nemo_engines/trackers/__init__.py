"""Publishing to experiment trackers: a program for the environment that has their libraries.

The service starts it (`publisher`) and talks to it in JSON lines; nothing else here decides anything.
"""
