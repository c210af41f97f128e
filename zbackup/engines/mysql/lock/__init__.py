"""Hold a server still for the moment of a snapshot: with a ceiling, and a watchdog that outlives us.

Used by engine alone. Read first: lock; then applier, applier_watchdog and restart_applier (replicas),
wait_limit (the ceiling).
"""
