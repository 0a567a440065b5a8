"""The commands of `nemo jobs`."""
