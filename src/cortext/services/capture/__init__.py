"""Taking in what was said in AI tools: transcripts found, read, checked and stored."""
