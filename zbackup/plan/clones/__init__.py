"""Small decisions for clones: their names, leases, connection URLs, and members of replica sets. Pure.

Asked by jobs.clones, jobs.dev_clones and the command line. Read first: lease and clone_name.
"""
