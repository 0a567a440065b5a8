"""From one submit file to jobs, and the records they leave."""
