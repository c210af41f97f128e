"""zbackup undo: the rows that one transaction changed, put back as they were before it.

undo leads, mysql and mongodb do it by the log; a clone tells what the log does not.

Read first: undo; then ports and mysql.session.
"""
