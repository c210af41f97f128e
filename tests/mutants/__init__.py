"""Defects put into the product one by one: `make check` has to find each.

named.py lists those that matter most, and `python -m tests.mutants` shows that each is found. In a campaign
(`python -m tests.mutants.campaign`) comparisons, conditions, filters and statements of the modules that
decide are changed in turn; what is not found is listed.

Each mutant is put into a copy of the project. The project itself is never changed.
"""
