"""The loop that compares what users asked for with what runs, and acts."""
