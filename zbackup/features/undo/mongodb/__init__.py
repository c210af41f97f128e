"""Take back one transaction of an oplog.

The documents before it come from a clone of the moment in front of it; nothing that was changed since is
overwritten.

Read first: session; then logged (what its entries say) and images.
"""
