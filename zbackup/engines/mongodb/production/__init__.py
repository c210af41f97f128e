"""Reading and writing production: its collections, the account that writes, a writer that waits for members.

Read first: collections; then writer and account.
"""
