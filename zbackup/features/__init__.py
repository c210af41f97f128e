"""The annexes: what zbackup does beyond snapshots, retention, copies, clones and recovery.

Each has everything of one feature: its commands, jobs, plans and parts of the engines. The core imports none
of them, and none imports another: zbackup.registry finds them by name.

Read first: switch; then copyback.
"""
