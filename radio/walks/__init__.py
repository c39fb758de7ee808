"""Walk policies: which client the vehicle drives to next."""
