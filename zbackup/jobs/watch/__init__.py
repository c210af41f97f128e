"""Look and report: check, status, window, a receiving host.

Nothing in here changes a database. What the facts mean is judged in plan.health.

Read first: check and status; then window and received.
"""
