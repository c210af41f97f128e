"""ZFS as argument lists, and what it answers as types: datasets, snapshots, holds, streams, errors.

Jobs, the catalog and destinations come in here; no decision is made in it.
Read first: datasets, then streams and errors (standard error as types). guarded is what the gate asks.
"""
