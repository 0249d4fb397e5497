"""What outlives a server: texts, links, histories and runs, in SQLite or PostgreSQL."""
