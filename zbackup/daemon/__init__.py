"""The daemon: runs jobs when they are due, one at a time for each instance, and tells how they ended.

When a job is due is decided in plan.due; apscheduler_adapter runs it at that time, in a thread. job_pings
tells of each job's end, health_notifier of an instance's health, each problem once, through channels.

Read first: service; then job_table and tasks.
"""
