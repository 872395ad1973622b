"""What one unit measured: schema, identities and storage. Imports no torch."""
