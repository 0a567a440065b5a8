"""What runs in the interpreter that has lm-eval: it makes rows, grades answers and adds up.

Nothing of it is imported by the collector, which talks to it in lines of JSON.
"""
