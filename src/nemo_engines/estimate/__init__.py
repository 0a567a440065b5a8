"""What a training will take, found out without its weights: memory by parts, steps and time."""
