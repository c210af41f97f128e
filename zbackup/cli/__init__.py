"""The command line: the only package that prints.

A module for each command, called like it; beside them what commands share: options, command_context (from
a command line to instances), output, tables, progress, json_shapes.

Read first: main; then restore.
"""
