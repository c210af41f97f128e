"""Binary log files, read without a server: events, positions, GTIDs, torn ends, the place to stop.

Used by recovery and lock. No server is asked. Read first: reader and scan; then find_stop.
"""
