"""The oplog while it is written, for the log archive. Read first: follow; then files (entries into files)."""
