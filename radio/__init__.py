"""Radios, links, exchanges, the contact graph and the walk over it. Knows no learning."""
