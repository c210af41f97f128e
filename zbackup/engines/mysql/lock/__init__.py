"""Hold a server still for the moment of a snapshot: with a ceiling that the server itself enforces.

On a replica the applier is paused, and a watchdog that outlives us starts it again.

Used by: engines.mysql. Read first: lock; then applier, applier_watchdog and restart_applier (replicas),
wait_limit
(how long the statements that lock may wait). lock itself enforces the ceiling.
"""
