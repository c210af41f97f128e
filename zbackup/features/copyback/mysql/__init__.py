"""Tables out of a clone and back into production: what is there, the statements, and the copying itself.

definition is pure.

Read first: session (plans and acts); then plan_table, fill and finish (foreign keys, triggers, the rename).
"""
