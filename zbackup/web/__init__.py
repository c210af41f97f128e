"""The web page: it shows what a reader with more rights tells it over a socket, and can do nothing itself.

guard says who is let in; clone_pages hand orders on, which features.webpage.operations may refuse.

Read first: pages; then guard, source and server.
"""
