"""The command `cortext`: the table of its commands, and `browse`. A command says what is asked.

What is decided belongs in `services`.
"""
