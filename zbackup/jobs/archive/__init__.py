"""The log archive: a server's log appended to at destinations while it is written.

A round looks, compares with what is there, plans (plan.archive) and appends; keep_up does that again and
again, state remembers how it went.

Read first: archive; then keep_up.
"""
