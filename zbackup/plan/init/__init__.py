"""The decisions of `zbackup init`: names, datasets, the configuration's text, the steps, the service, the
receiving host. Pure.

Read config_text.py first, then steps.py.
"""
