"""A recovered clone takes production's place, and production can come back.

The steps are decided in features.switch.plan; each may be repeated after a kill.

Read first: switch; then inspect (what forbids it) and steps.
"""
