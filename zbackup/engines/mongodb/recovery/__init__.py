"""Recover a mongod as of the target from a backup's files and a later holder of the oplog, and prove it.

as_it_is is a backup with nothing replayed; added_oplog puts archived entries into a clone. Jobs know it
as engines.base.Recovery and LogReader.

Read first: recover; then log_reader.
"""
