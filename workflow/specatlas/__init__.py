"""SpecAtlas: a reproducible survey and leaderboard of speculative decoding."""

__version__ = "0.1.0"
