"""Decisions as pure functions: facts in, a plan with reasons out. No program, file, server or clock.

Jobs and the command line ask; the tests are properties (tests/unit/plan). Rooms: retention (what to delete),
recovery (how to reach a moment), ship (what to send, what a gate lets in), health (findings), clones.
Read first: retention.retention and recovery.recovery. schedule (when a job is due) and switch stand alone.
"""
