"""Walk policies, which choose the client that a vehicle drives to next."""
