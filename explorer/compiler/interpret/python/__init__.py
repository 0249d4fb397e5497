"""Statements as Python, which runs many times as fast as what reads each anew."""
