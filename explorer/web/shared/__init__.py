"""What the processes of one server share, where it has several: a file of SQLite in a folder of their own."""
