"""One run: from a scenario to its folder, with progress, checkpoints and resume."""
