"""Writable clones for developers: create, reset, promote, snapshot, and their leases.

Read first: create; the mechanism is in jobs.clones.
"""
