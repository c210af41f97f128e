"""Tables and collections out of a clone, back into production.

after_restore does it with a clone that was made for nothing else.

Read first: copy.
"""
