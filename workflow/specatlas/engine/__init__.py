"""The engine: transformer, KV cache, draft tree, sampling, verification rules, decoding loop."""
