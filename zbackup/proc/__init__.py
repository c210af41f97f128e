"""Processes and files of this host: the only way to start a program or touch a file others could replace.

Every program is started by start, whose output run reads and pipeline connects; every path that is not
root's alone goes through secure_files.

Read first: start and run; then secure_files, programs (which ones root may run) and pipeline.
"""
