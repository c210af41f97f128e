"""Decide how a recovery target is reached, and which targets can be: base backup, log, gaps, clocks. Pure.

before_transaction is the same for one transaction, as_it_is for a backup without its log, archived for log
that lies at a destination.

Read first: recovery; then coverage (who holds the log) and window (ranges, gaps).
"""
