"""Reading and writing production: tables and rows as it has them, the account that writes, and a throttle.

Read first: tables; then statements and account.
"""
