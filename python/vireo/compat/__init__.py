"""Packages that let programs for other runtimes run on this one."""
