"""Pages that are made on the server: layout, static files, rendering, security headers, live events."""
