"""The binary log while it is written, for the log archive.

Its files are read as they grow, up to the last whole transaction; the server is asked
nothing, unless its log is a copy (plain_log).

Read first: follow.
"""
