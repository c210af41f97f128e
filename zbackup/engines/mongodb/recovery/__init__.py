"""From a backup's files and a later holder of the oplog to a mongod as of the target, proven.

Used through engines.base.Recovery. Read first: recover; as_it_is is a backup with nothing replayed.
"""
