"""What came out of a submission, and what it cost."""
