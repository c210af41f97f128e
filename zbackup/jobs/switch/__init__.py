"""A recovered clone takes production's place, and production can come back.

The steps are decided in plan.switch; each may be repeated after a kill.

Used by: cli. Read first: switch; then inspect (what forbids it) and steps.
"""
