"""Leases of a machine's devices and slots."""
