"""Take a backup, complete its record, and delete what the retention policy no longer needs.

What is deleted is decided in plan.retention; end_keep ends a backup's protection by hand.

Read first: snapshot; then complete_record and prune.
"""
