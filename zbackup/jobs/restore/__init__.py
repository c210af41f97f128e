"""Bring an instance back to a recovery target: from here, fetched from a destination, or right there.

A source tells which backups and logs there are; make_plan asks plan.recovery, restore acts.

Read first: restore; then source, and its kinds, local_source, destination_source and foreign_source.
"""
