"""Backups at destinations: sent, pruned, verified, and the commands a receiving host allows.

Read first: ship; then prune_at and verify_at. remote_holds keeps what a restore there still needs.
"""
