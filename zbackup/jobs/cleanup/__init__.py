"""Act on what a killed run of zbackup left behind: finish it, remove it, or report it.

The first job of every instance in the daemon, and removal at the root helper's hands. What only looks for
unfinished clones is jobs.clones.find_leftovers.

Read first: cleanup.
"""
