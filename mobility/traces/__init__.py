"""Movement traces: read, write and describe them, and find the contacts in them."""
