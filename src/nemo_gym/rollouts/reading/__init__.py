"""Which rollouts are wanted of an output, and what does each hold?"""
