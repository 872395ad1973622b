"""From records to boards: statistics, ranking, flags, cost model. Imports no torch."""
