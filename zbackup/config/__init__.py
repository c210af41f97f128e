"""The configuration file: read, checked, and handed on as frozen tables. All problems are told at once.

Everybody above may import the tables; nobody else reads the file.
Read first: settings (what may be set), load (how it is read), problems (how it is refused).
"""
