"""Reading a server's binary log while it is written, for the log archive. Read first: follow."""
