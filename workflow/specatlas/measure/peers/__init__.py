"""Our loop beside other implementations: the same weights, precision, prompts and machine.

Only a strong baseline makes a speedup mean something, so `specatlas peers` shows how ours stands against
`transformers` (and llama.cpp, where it is installed). Nothing is recorded.
"""

from specatlas.measure.peers.compare import compare_peers

__all__ = ["compare_peers"]
