"""The web page's back office: it answers the page's questions (reader), and does what it orders (cloner).

The page itself is zbackup.web, which can do nothing. overview looks, operations act on clones.

Read first: command; then reader, cloner.
"""
