"""`nemo customization`: submitting fine-tuning jobs."""
