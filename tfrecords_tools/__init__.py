"""Command-line tools that prepare and inspect pre-training data."""
