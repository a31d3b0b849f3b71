"""Fixtures of the tests of reports."""

from sample_pages import pages

__all__ = ["pages"]
