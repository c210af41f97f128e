"""A running MySQL or MariaDB: connections, what it says of itself, and what its settings mean.

Used by lock, clone and recovery. Nothing in here changes a server. Read first: connection, inspect.
"""
