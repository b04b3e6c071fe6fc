"""The target `dlp`: graphs to programs of the deep-learning processor."""
