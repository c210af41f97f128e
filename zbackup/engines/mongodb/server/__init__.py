"""A running mongod: connections, what it says of itself and its set, and what its settings mean.

Nothing in here changes a server, but for accounts that are asked for.

Read first: connection; then inspect and server_facts.
"""
