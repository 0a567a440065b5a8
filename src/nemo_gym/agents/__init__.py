"""Agents: how a task is put to the policy model."""
