"""The commands of `cortext`, a module each: `run(arguments) -> exit code`."""
