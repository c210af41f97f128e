"""The command line: the only room that prints. A module for each command, tables and progress beside them.

Nobody imports from here. Read first: main, then restore.
"""
