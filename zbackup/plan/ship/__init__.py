"""Decide what is sent to a destination, and what the receiving host lets the sender do. Pure.

Asked by jobs.ship. Read first: ship (base, incremental, resume); then gate (the commands that the holder of
a key may run) and wanted (which backups a destination should have).
"""
