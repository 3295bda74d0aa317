"""The loop, its optimizer, its checkpoints. Knows nothing of ELECTRA."""
