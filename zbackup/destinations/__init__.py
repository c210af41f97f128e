"""The destinations that backups are shipped to and logs archived at: the protocols, and what keeps them.

zfs_destination is a pool, of this host or over ssh, zfs_archive the log archive there; s3 a bucket. All pass
the same tests (tests/destinations).

Read first: base; then zfs_destination or s3.session.
"""
