"""Inference: model files in and out, and the engine that runs them."""
