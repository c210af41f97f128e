"""The facts that a page shows of a host.

From the same looks that `zbackup status`, `window`, `list` and `clone list` take. reader answers a process
that may do nothing itself.

Read first: inspect; then reader.
"""
