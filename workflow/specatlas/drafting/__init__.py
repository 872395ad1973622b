"""Building blocks that several methods share. May import `engine`; imports no method."""
