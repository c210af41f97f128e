"""The daemon: jobs when they are due, one instance one job at a time, and what becomes of them.

app gives it its jobs; the command line starts it. Read first: service, then job_table and tasks. When a job
is due is decided in plan.due; apscheduler_adapter runs it at that time, in a thread.

Two modules tell others: job_pings of each job's end (pings and hooks), health_notifier of an instance's
health (mail and webhooks, each problem told once), with channels to send them.
"""
