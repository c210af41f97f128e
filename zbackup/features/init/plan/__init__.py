"""The decisions of `zbackup init`: names, datasets, the configuration's text, the steps, the service. Pure.

receive is the same for a host that receives copies.

Read first: config_text; then steps.
"""
