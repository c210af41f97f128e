"""A mongod on a clone's files: its program, its options, its accounts, nobody's replica set member.

Used by recovery. Read first: clone_server; then server_options (what is taken over from the original).
"""
