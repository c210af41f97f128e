"""Decide which backups stay, each with its reasons, and which may be deleted. Pure.

What the promised window still needs is asked of plan.recovery.

Read first: rules, then retention (no moment of the window gets lost) and received_backups (claims of others).
"""
