"""A recovered clone takes production's place, and production can come back.

Read first: switch; then inspect (what forbids it) and steps (each may be repeated).
"""
