"""A running MySQL or MariaDB: connections, what it says of itself, and what its settings mean.

Nothing in here changes a server, but for accounts that are asked for.

Read first: connection; then inspect and server_facts.
"""
