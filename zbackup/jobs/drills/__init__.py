"""Restores for proof: made, checked and removed again, by hand and on schedule, with a verdict each.

Used by the command line, the daemon and jobs.watch. Read first: drill; then scheduled_drill (is one due, may
it run now) and verdicts (where the outcome is written down).
"""
