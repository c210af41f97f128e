"""The destinations that backups are shipped to, as the jobs see it: the protocols in base, and what keeps
them.

zfs_destination is a pool, of this host or over ssh; s3 a bucket. All pass the same tests
(tests/destinations). Read first: base.
"""
