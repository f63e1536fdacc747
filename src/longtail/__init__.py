"""longtail finds the right few labels among millions, including the ones almost nobody has used yet."""

__version__ = "0.1.0"
