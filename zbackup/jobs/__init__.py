"""The use cases: each job inspects, plans, acts and reports. context is what all of them work with.

Rooms: backup (snapshot, prune), ship (to destinations), clones (datasets and servers of clones: mechanism),
restore, drills, dev_clones, switch, cleanup (after killed runs), watch (check, status, window). The command
line and the daemon come in. Read first: context, then one story from its job down, for instance
backup.snapshot.
"""
