"""Setting zbackup up on a host: look at what runs, act on what `plan.init` decides. `zbackup init` brings
both together.

Read discover.py first, then act.py.
"""
