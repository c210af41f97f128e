"""MySQL, Percona Server and MariaDB. engine is the front door.

Rooms: server (a running server: connection, inspection), lock (held still for a snapshot), binlog (files,
read without a server), clone (a server on a clone's files), recovery (replay to a target).
Read first: engine, then lock.lock or recovery.recover.
"""
