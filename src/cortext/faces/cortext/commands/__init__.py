"""The commands of `cortext`, a module for each subject: it has `run(arguments) -> exit code` and `parser()`, or a
`Command` for each of its commands. What several commands share is in modules that begin with `_`.

A command reads options, asks a service and prints: what other faces would decide alike belongs in `services`.
"""
