"""The database: SQLAlchemy Core over SQLite or PostgreSQL, in units that read or units that write."""
