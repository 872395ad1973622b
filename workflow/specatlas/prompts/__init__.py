"""Evaluation prompts, loaders for public prompt sets and the training corpus's instructions. Imports no torch."""
