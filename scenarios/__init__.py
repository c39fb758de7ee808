"""The scenario files that ship."""
