"""The command line: the only room that prints.

A module for each command, called like it; beside them what commands share: options and output, working (a
context for a command), tables, progress, shapes (what --json prints).

Used by: nobody. Read first: main; then restore.
"""
