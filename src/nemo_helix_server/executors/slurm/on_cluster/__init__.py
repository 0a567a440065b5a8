"""What runs on the cluster itself, on its host and its nodes: sent along, and started there."""
