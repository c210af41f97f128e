"""A running mongod: connections, what it says of itself and its set, and what its settings mean.

Used by lock, oplog, clone and recovery. Nothing in here changes a server. Read first: connection, inspect.
"""
