"""A sharded MongoDB as one: its members' common window, and all of them restored to one cluster time.

Read first: members, then restore.
"""
