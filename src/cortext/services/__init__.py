"""What a face asks for, in one order (pyproject.toml has it): text, projects, digest, library, capture, and above."""
