"""A sharded MongoDB as one: its members' common window, and all of them restored to one cluster time.

Each member is restored by jobs.restore; plan.cluster decides the time and the order.

Read first: members; then restore.
"""
