"""The tables, in SQL that SQLite and PostgreSQL both take. Whatever people write is a parameter, in JSON's ASCII, since
PostgreSQL's texts have no character 0."""

from __future__ import annotations

import secrets

from explorer.store.database import Connection, StoreError

VERSION = "1"
"""Of the tables; a store of another version is left as it is."""

_TABLES = (
    "CREATE TABLE IF NOT EXISTS about (name TEXT PRIMARY KEY, value TEXT NOT NULL)",
    "CREATE TABLE IF NOT EXISTS texts (hash TEXT PRIMARY KEY, text TEXT NOT NULL)",
    # Whatever is kept of a student: a link, an entry of a history, or a run.
    """CREATE TABLE IF NOT EXISTS items (
        id TEXT PRIMARY KEY, kind TEXT NOT NULL, student TEXT NOT NULL, hash TEXT NOT NULL, state TEXT NOT NULL,
        body TEXT NOT NULL, bytes BIGINT NOT NULL, at DOUBLE PRECISION NOT NULL)""",
    "CREATE INDEX IF NOT EXISTS items_of ON items (student, kind, at)",
    "CREATE INDEX IF NOT EXISTS items_by_age ON items (at)",
    "CREATE INDEX IF NOT EXISTS items_by_text ON items (hash)",
)


def prepare(connection: Connection) -> None:
    """Make the tables where there are none. Raises StoreError for those of another version."""
    for statement in _TABLES:
        connection.run(statement)
    for name, value in (("version", VERSION), ("secret", secrets.token_hex(32))):
        connection.run("INSERT INTO about VALUES (?, ?) ON CONFLICT (name) DO NOTHING", (name, value))
    if about(connection, "version") != VERSION:
        raise StoreError("The store was made by another version of the explorer.")


def about(connection: Connection, name: str) -> str:
    """What is noted under a name of all that a store holds: its `version`, or the `secret` of cookies."""
    return str(connection.run("SELECT value FROM about WHERE name = ?", (name,))[0][0])
