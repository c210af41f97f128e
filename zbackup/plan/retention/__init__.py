"""Decide which backups stay, each with its reasons, and which may be deleted. Pure.

Asked by jobs.backup.prune and jobs.ship.prune_at; asks plan.recovery for what the window still needs.
Read first: retention; then keep_window (no moment of the window gets lost) and arrival (claims of others).
"""
