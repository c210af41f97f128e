"""The web page: it shows what a reader with more rights tells it over a socket, and can do nothing itself.

guard says who is let in; clone_pages hand orders on, which jobs.operations may refuse.

Used by: cli. Read first: pages; then guard, source and server.
"""
