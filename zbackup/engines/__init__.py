"""Database servers, as the jobs see them: the protocols in base, and one package for each engine.

What both engines do alike is beside base. Engines know neither ZFS nor jobs, and decide nothing that
plan decides.

Read first: base; then mysql.engine or mongodb.engine.
"""
