"""Files that outlive crashes: whole files, files of rows, journals."""
