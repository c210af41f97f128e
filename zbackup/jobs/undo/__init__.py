"""Take back one transaction in production.

Rows that nobody has changed since are put back as they were before it, out of a server that is restored for
that alone (on_a_clone).

Read first: undo.
"""
