"""Set zbackup up on a host: look at what runs, act on what features.init.plan decides.

`zbackup init` brings both together, and asks.

Read first: discover; then act.
"""
