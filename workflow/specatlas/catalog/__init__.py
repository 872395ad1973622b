"""Cards, taxonomy and discovery. Imports no torch."""
