"""Driving the fine-tuning recipe of NeMo Automodel."""
