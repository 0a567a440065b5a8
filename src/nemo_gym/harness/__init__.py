"""The tasks of lm-evaluation-harness, asked by our collector and graded in a process of their own."""
