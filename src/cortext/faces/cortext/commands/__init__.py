"""The commands of `cortext`, one module each: `run(arguments) -> exit code`."""
