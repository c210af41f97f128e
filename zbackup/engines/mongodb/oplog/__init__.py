"""The oplog of a clone: what it holds, whether another one continues it, where it is cut.

Used by recovery. Read first: oplog; then continuation (proof of one history) and find_stop.
"""
