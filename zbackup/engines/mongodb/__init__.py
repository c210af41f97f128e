"""MongoDB. engine is the front door.

Rooms: server (a running mongod), lock (fsyncLock, released whatever happens), oplog (what it says), clone (a
mongod on a clone's files), recovery (replay to a target), archive (the oplog while it is written),
production (what copy and undo write to).

Read first: engine; then lock.lock or recovery.recover.
"""
