"""How results are printed: documents for programs, tables and cards for people."""
