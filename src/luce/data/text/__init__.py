"""Texts as features: analyzers, statistics of a corpus, and the scores that a search engine would give."""
