"""What a submit file may say: its schema, its rules, and how it becomes the config as submitted."""
