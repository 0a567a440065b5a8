"""What each backend's input means: its rules in one situation, its resolved spec, and the engine spec."""
