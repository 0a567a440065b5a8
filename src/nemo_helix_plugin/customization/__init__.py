"""Fine-tuning: the spec of a customization job, and how one is submitted."""
