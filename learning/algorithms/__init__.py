"""Learning algorithms: one file each, one equation per function."""
