"""What is said of a job: its progress, its reasons, its times, its metrics; the same everywhere."""
