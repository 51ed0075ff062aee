"""Crash tests: kills, failing calls, torn writes, power cuts; then the store is opened and `invariants` are checked.

Quick versions run with the test suite. For the long ones, see `python -m tests.store.crash.long --help`.
"""
