"""What every store must do, by capability. A backend is one entry in `test_conformance.BACKENDS`.

A class says with `needs` which capability it is about; a backend that lacks one says so in its entry, and
then has to refuse it clearly (TestWhatABackendLacks) instead of being passed over.
"""
