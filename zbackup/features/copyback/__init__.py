"""zbackup copy: tables or collections out of a recovered server, back into production.

copy leads, mysql and mongodb do it; after_restore is the same for `zbackup restore --table`.

Read first: copy; then ports and mysql.session.
"""
