"""Tables out of a clone and back into production: what is there, the statements, and the copying itself.

Read first: session, which plans and acts; then plan_table and plan_rows, and finish and views for what comes
behind the rows. definition and statements are pure.
"""
