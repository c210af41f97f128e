"""A copy of a server's binary log as it is sent to replicas: in the clear. Read first: plain_log."""
