"""What a submission is made of: values, job scripts, and the files that jobs read."""
