"""zbackup init and zbackup install-service: find what runs on a host, set everything up, prove it.

The files here talk to the user. jobs looks at the host and acts, plan decides; setup has the words of both.

Read first: command; then draft, jobs.act and plan.steps.
"""
