"""Moved to `specatlas.drafting.methods`, below training and measuring; this name goes once nobody uses it."""

from specatlas.drafting.methods import *  # noqa: F403
