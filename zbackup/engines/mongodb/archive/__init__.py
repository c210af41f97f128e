"""The oplog while it is written, for the log archive.

The server is asked for what a majority of its set has; its entries become files, byte for byte.

Read first: follow.
"""
