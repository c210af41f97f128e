"""A server on a clone's files: its program, its options, its keyring, its accounts.

What the original was told is taken over where it matters to its files, and nothing else.

Read first: clone_server; then server_options.
"""
