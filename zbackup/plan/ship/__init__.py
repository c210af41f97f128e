"""Decide what is sent to a destination, and what the receiving host lets the sender do. Pure.

wanted tells which backups a destination should have.

Read first: ship (base, incremental, resume); then gate (the commands that the holder of a key may run) and
accept_stream.
"""
