"""Findings: what somebody should know of an instance, a server's settings or a receiving host. Pure.

A finding says what, why that matters and what to do, and how bad it is: ok, warning or critical.

Read first: health; then doctor and placement (settings and datasets that would hurt later) and received.
"""
