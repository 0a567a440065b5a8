"""Pages of jobs for a browser: sessions, what a page says, and the addresses; everything is rendered here."""
