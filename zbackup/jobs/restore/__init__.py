"""Bring an instance back to a recovery target: from here, fetched from a destination, or right there.

Read first: restore; then source, and its two kinds, local_source and destination_source.
"""
