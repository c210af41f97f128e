"""Findings: what somebody should know of an instance, a server's settings or a receiving host. Pure.

Asked by jobs.watch. Read first: health; then doctor and placement (settings and datasets that would hurt
later).
"""
