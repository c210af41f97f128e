"""MongoDB. engine is the front door.

Rooms: server (a running mongod), lock (fsyncLock, released whatever happens), oplog (read and written through
a mongod of ours), clone (a mongod on a clone's files), recovery (replay to a target).
Read first: engine, then lock.lock or recovery.recover.
"""
