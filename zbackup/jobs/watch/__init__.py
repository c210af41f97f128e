"""Look, and say: check, status, window, a receiving host.

Nothing in here changes a database. Read first: check and status.
"""
