"""Collections out of a clone and back into production.

Each is filled under a working name, and renamed when it is complete; a run that was cut short is continued.

Read first: session; then plan_collection and fill.
"""
