"""Hold a mongod still for the moment of a snapshot; an fsyncLock survives its client, so a watchdog waits.

Used by engine alone. Read first: lock; then marker_file, release and heal (the run after one that died).
"""
