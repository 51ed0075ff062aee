"""The built-in embedding: data, how it was made (README.md), and the script that makes it again.

What computes with it belongs in `index/search`.
"""
