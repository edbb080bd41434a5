"""Speed and memory of training and decoding, measured in turn against what users have."""
