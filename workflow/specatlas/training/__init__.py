"""Making artifacts: corpus, features, losses, the training loop. May import `engine` and `drafting`."""
