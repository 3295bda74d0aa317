"""Keras layers of the encoder and its heads; plain arguments, no config."""
