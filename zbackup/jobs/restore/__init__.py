"""Bring an instance back to a recovery target: from here, fetched from a destination, or right there.

Read first: restore (local), then from_destination with fetch and at_destination.
"""
