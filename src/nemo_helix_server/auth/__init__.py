"""Who calls, and what they may do: tokens with roles and workspaces, and tokens of steps."""
