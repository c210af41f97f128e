"""Binary log files, read without a server: events, positions, GTIDs, torn ends, the position to stop at.

All of it is read from files that others can write: lengths are bounded, nothing is followed.

Read first: reader and scan; then find_stop.
"""
