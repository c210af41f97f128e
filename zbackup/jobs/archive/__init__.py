"""The log archive: a server's log appended to at destinations while it is written. Read first: archive."""
