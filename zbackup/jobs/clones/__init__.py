"""The mechanism of clones: claimed names and ports, datasets made and destroyed, servers provisioned.

Used by restore, dev_clones, switch, ship and watch; no use case of its own. Read first: clone_datasets (which
proves what is ours), claim, lifecycle.
"""
