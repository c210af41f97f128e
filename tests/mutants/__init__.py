"""Defects put into the product one by one: `make check` has to find each.

named.py lists those that matter most, and `python -m tests.mutants` shows that each is found. In a campaign
(`python -m tests.mutants campaign`) every comparison, condition, constant and statement of some packages is
changed in turn; what is not found is listed.

Each mutant is put into a copy of the project. The project itself is never changed.
"""
