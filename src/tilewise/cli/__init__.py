"""The commands behind ``tilewise``, one module each; every one returns an exit status."""
