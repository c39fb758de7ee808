"""Terrain, trajectories, movement models and routing. Knows no radio and no learning."""
