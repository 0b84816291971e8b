"""Evaluation protocol, learning-rate search, paired comparison, statistics."""
