"""Processes and files of this host: the only way to start a program or touch a file others could replace.

Every room above comes in here; no room below is needed but model.
Read first: start and run (programs), secure_files (files), programs (which ones root may run), pipeline.
"""
