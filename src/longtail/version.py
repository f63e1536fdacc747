"""The version of this release. A file of its own, so that other files can import it without importing the package."""

__version__ = "0.1.0"
