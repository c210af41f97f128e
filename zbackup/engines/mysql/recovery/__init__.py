"""From a backup's files and a later holder of the log to a server as of the target, proven.

Used through engines.base.Recovery. Read first: recover; then replay, replay_bounds and verify_replay.
"""
