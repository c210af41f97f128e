"""Decisions as pure functions: facts in, a plan with reasons out. No program, file, server or clock.

Rooms: retention (what to delete), recovery (how to reach a target), ship (what to send, what a gate lets in),
health (findings), clones, timeline. due (when a job is due), archive and cluster stand alone.

Read first: retention.retention and recovery.recovery.
"""
