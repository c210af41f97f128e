"""The facts that a page shows of a host, from the same looks that `zbackup status`, `window`, `list` and
`clone list` take. Begin with `look.py`; `reader.py` answers a process that may do nothing itself.
"""
