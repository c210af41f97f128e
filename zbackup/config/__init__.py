"""The configuration file: read, checked, and handed on as frozen tables. All problems are told at once.

Each setting is declared here, once, with its default and its description, which is the reference. Nobody else
reads the file; who works by a setting takes the table.

Read first: settings; then load.
"""
