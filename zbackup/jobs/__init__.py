"""The use cases: each job inspects, plans, acts and reports. context is what all of them work with.

Rooms: backup (snapshot, prune), ship (to destinations), archive (the log), restore, cluster, copy, undo, log,
drills, dev_clones, switch, init, watch (check, status, window), overview and operations (the web page's),
cleanup (after killed runs); clones is mechanism: datasets and servers of clones.

Read first: context; then one story from its job down, as backup.snapshot.
"""
