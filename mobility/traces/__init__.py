"""Movement traces: reading, writing, describing them, and finding contacts in them."""
