"""The k nearest of many vectors: exact, approximate, and which of the two."""
