"""Hold a server still for the moment of a snapshot: with a ceiling that the server, a second session and a
watchdog enforce.

On a replica the applier is paused, and another watchdog that outlives us starts it again.

Read first: lock, which says who enforces the ceiling; then wait_limit (how long a statement may wait) and
lock_watchdog; for replicas applier, applier_watchdog and restart_applier.
"""
