"""The commands of `nemo` that run and look after the service."""
