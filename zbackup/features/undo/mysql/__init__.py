"""Take back one transaction by its row images.

changes reads what it did, net_change and reverse decide what takes it back, foreign_keys which rows of others
would be touched by that, put_back does it where the rows are still as it left them.

Read first: session; then values, for what a log's bytes mean.
"""
