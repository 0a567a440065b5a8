"""What changes the queue: submit, check, cancel and resubmit."""
