"""Tell what happened to which table: the transactions in an instance's logs, by what they did.

Read from the newest snapshot, from the server's own log, or from a destination.

Read first: log.
"""
