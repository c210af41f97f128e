"""Recover a server as of the target from a backup's files and a later holder of the log, and prove it.

MySQL replays as a replica of its own relay log (replay_mysql), MariaDB from a source that we play
(replay_mariadb, replication_source).

Read first: recover; then replay, replay_bounds and verify_replay.
"""
