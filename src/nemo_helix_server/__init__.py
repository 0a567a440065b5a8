"""The Jobs service: fine-tuning jobs that pause, resume and run again."""
