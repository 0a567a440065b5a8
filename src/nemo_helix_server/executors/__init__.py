"""What runs the steps of jobs: one protocol, and the executors that keep it."""
