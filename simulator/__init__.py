"""From a scenario file to a run folder: the program, its command line and its event loop."""
