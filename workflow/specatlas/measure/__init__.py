"""Running units: arms, clock, exactness gate, conformance, environment. May import everything below it."""
