"""Tables out of a clone and back into production: what is there, the statements, and the copying itself.

definition and statements are pure. brake keeps a copy from getting in production's way.

Read first: session (plans and acts); then plan_table, plan_rows, and finish and views (what comes behind the
rows).
"""
