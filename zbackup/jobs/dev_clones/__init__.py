"""Writable clones for developers: create, reset, promote, snapshot, and their leases.

The mechanism is in jobs.clones, the small decisions are in plan.clones.

Used by: cli, daemon, jobs.operations, jobs.watch. Read first: create; then lease.
"""
