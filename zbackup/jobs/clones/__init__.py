"""The mechanism of clones: claimed names and ports, datasets made and destroyed, servers provisioned.

No use case of its own. A dataset is touched only where clone_datasets proves that it is ours.

Read first: clone_datasets; then claim and lifecycle.
"""
