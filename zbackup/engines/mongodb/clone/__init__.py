"""A mongod on a clone's files: its program, its options, its accounts, nobody's replica set member.

What the original was told is taken over where it matters to its files, and nothing else.

Read first: clone_server; then server_options.
"""
