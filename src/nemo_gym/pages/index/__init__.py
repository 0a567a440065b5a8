"""What is known of evaluations without reading their results again: small tables that grow with the files."""
