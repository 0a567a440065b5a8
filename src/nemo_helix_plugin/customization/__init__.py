"""Fine-tuning: what a customization job is told, and how one is submitted."""
