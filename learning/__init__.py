"""Data, models, client state and algorithms; independent of geometry and time."""
