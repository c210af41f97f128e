"""Small decisions for clones: their names, leases, connection URLs, and members of replica sets. Pure.

Whether a name may be taken, and what a clone's end is, is said here alone.

Read first: lease and clone_name.
"""
