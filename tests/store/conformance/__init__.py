"""What every store must do, by capability. A backend is one entry in `test_conformance.BACKENDS`.

A test class names the capability that it tests in `needs`. A backend lists the capabilities that it lacks in its entry,
and has to refuse them clearly (TestMissingCapabilities).
"""
