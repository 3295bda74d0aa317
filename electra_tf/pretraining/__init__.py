"""Masks, samples, corrupts and scores: the objectives of pre-training."""
