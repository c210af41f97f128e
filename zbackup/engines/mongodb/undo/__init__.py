"""Take back one transaction of an oplog. Read session; then logged, for what its entries say."""
