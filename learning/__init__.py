"""Data, models, client state and the algorithms. Knows no geometry and no clock."""
