"""Tell what happened to which table: the transactions in an instance's logs, by what they did.

Read first: log.
"""
