"""Cline, and Roo Code and Kilo Code, which were made from it: reading their tasks."""
