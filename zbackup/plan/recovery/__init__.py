"""Decide how a recovery target is reached, and which targets can be: base backup, log, gaps, clocks. Pure.

Asked by jobs.restore, jobs.watch.window and plan.retention.
Read first: recovery; then coverage (who holds the log) and window (ranges and gaps). before_transaction is
the same for one transaction, as_it_is for a backup without its log.
"""
