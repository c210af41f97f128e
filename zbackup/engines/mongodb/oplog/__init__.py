"""The oplog of a clone: what it holds, whether another one continues it, where its replay stops.

A stored one is read through a mongod of ours; archived ones are files.

Read first: oplog; then continuation (proof of one history) and find_stop.
"""
