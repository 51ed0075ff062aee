"""Crash tests: kill, fail, tear, cut the power; then open the store and check `invariants`.

Quick versions run with the test command. The long ones: `python -m tests.store.crash.long --help`.
"""
