"""What runs in the interpreter that has bfcl-eval."""
