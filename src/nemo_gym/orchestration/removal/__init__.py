"""Which run directories may be deleted, and how do they go?"""
