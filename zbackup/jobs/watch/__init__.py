"""Look, and say: check, status, window, a receiving host; and cleanup after runs that were killed.

Nothing in here changes a database. Read first: check and status; then cleanup.
"""
