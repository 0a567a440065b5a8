"""Fine-tuning jobs: input spec in, four steps out."""
