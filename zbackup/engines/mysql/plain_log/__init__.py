"""A copy of a server's binary log as it is sent to replicas: in the clear, for logs that are encrypted.

Files with the bytes that the log would have without encryption, on a dataset of the instance.

Read first: plain_log; then snapshots (what it means for a backup).
"""
