"""zbackup fleet: every host that ships to another host or a bucket, how old and how exposed its copies are.

Read first: command; then look and judgement.
"""
