"""Terrain, routing, mobility models, trajectories and traces. Knows neither radio nor learning."""
