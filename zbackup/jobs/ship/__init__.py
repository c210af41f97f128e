"""Backups at destinations: sent, pruned, verified, and the commands a receiving host allows.

What is sent is decided in plan.ship. remote_holds keeps what a restore there still needs.

Read first: ship; then prune_at, verify_at and gate.
"""
