"""The commands of the command line, one file each; light to import: each imports what it needs when it runs."""
