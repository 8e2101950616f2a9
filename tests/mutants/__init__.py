"""Planted bugs: a fixed list of source patches, each of which named tests must catch.

``python -m tests.mutants`` plants them one by one in a copy of the sources and prints how many
were killed. A survivor means that the tests are blind to that bug.
"""
