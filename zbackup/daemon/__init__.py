"""The daemon: jobs when they are due, one instance one job at a time, and what becomes of them.

app gives it its jobs; the command line starts it. Read first: service, then job_table and tasks.
"""
