"""MySQL, Percona Server and MariaDB. engine is the front door.

Rooms: server (a running server), lock (taken for a snapshot), binlog (files, read without a server),
clone (a server on a clone's files), recovery (replay to a target), archive (the log while it is written),
plain_log (a copy of an encrypted log), production (what copy and undo write to), sql (parsed statements).

Read first: engine; then lock.lock or recovery.recover.
"""
