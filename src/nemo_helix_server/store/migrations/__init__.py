"""How the tables came to be what they are; one module a change, in order."""

HEAD = "0009"
"""The newest revision: a database at it needs no look at the revisions themselves."""
