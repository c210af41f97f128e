"""Database servers, as the jobs see them: the protocols in base, and one room for each engine.

Jobs know base alone. Engines know neither ZFS nor jobs. Read first: base; then mysql.engine or
mongodb.engine.
"""
