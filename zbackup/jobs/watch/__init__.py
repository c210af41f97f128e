"""Look, and say: check, status, window, a fleet, a receiving host.

Nothing in here changes a database. What the facts mean is judged in plan.health.

Used by: app, cli, daemon, jobs.cluster, jobs.overview. Read first: check and status; then
window and received.
"""
