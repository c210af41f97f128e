"""Hold a mongod still for the moment of a snapshot.

An fsyncLock survives its client, so a watchdog of its own process waits, and releases it when zbackup dies or
hangs; a marker file lets the next run heal what both left.

Read first: lock; then watchdog and release, and marker_file of the engines.
"""
