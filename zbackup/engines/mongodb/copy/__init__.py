"""Collections out of a clone and back into production.

Each is filled under a working name, and renamed when it is complete; a run that was cut short is continued.

Used by: app, engines.mongodb.undo. Read first: session; then plan_collection and fill.
"""
