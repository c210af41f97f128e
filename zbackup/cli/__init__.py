"""The command line. Only it and the commands of annexes print.

A module for each command, called like it; beside them what commands share: options, command_context (from
a command line to instances), output, tables, progress, json_shapes.

Read first: main; then restore.
"""
