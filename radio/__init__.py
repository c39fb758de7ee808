"""Radios, links, exchanges, the contact graph and walks over it. Knows nothing of learning."""
