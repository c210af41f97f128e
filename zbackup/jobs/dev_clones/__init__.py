"""Writable clones for developers: create, reset, promote, snapshot, and their leases.

The mechanism is in jobs.clones, the small decisions are in plan.clones.

Read first: create; then lease.
"""
