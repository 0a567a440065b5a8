"""What asks a training to save, pause or stop: files, signals, the service, and the end of its allocation."""
