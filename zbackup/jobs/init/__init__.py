"""Set zbackup up on a host: look at what runs, act on what plan.init decides.

`zbackup init` brings both together, and asks.

Used by: cli. Read first: discover; then act.
"""
