"""A server on a clone's files: its program, its options, its keyring, its accounts.

Used by recovery. Read first: clone_server; then server_options (what is taken over from the original).
"""
