"""What is kept, asked for: lists, search, recall, statistics, export, copies."""
