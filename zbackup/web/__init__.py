"""The web page: it shows what a reader with more rights tells it over a socket, and can do nothing itself.

Begin with `pages.py`; `guard.py` says who is let in, and `server.py` runs it.
"""
