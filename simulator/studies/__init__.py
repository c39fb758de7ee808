"""Many runs: plans of points, the batch that runs them, and the index of their results."""
