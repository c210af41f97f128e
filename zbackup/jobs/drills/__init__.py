"""Restores for proof: made, checked and removed again, by hand and on schedule, with a verdict each.

scheduled_drill tells whether one is due and may run now, guard ends one that gets in the way.

Read first: drill; then verdicts, where the outcome is written down.
"""
