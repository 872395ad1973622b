"""Where models come from: the registry, fetching and conversion, tokenizers, tiny models for tests."""
