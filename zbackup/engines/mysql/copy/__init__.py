"""Tables out of a clone and back into production: what is there, the statements, and the copying itself.

Read first: session, which plans and acts; then definition and statements, which are pure.
"""
