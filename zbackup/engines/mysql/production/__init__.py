"""Reading and writing production: tables and rows as it has them, the account that writes, and a brake.

Read first: tables; then statements and account.
"""
