"""ChatGPT: reading the conversations of a data export."""
