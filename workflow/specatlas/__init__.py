"""SpecAtlas: a reproducible survey and leaderboard of speculative decoding."""

import os

# Weights are read from end to end at every step, and huge pages spare a CPU up to a third of that time. torch reads
# the variable once, at its first allocation, so it is set before anything imports torch. It serves every arm alike.
os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")

__version__ = "0.1.0"
