"""What benchmarks are doing, and what a person should do next."""
