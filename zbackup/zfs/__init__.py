"""ZFS as argument lists, and what it answers as types: datasets, snapshots, holds, streams, errors.

Jobs, the catalog and destinations come in here; no decision is made in it.
Read first: datasets, then guarded (destroy only what is proven ours) and errors (standard error as types).
"""
