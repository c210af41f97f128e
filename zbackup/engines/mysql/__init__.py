"""MySQL, Percona Server and MariaDB. engine is the front door.

Rooms: server (a running server), lock (taken for a snapshot), binlog (files, read without a server),
clone (a server on a clone's files), recovery (replay to a target), archive (the log while it is written),
copy (tables back into production), undo (of one transaction).

Read first: engine; then lock.lock or recovery.recover.
"""
