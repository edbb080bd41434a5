"""What has to be seen on a GPU, in parts that one machine runs one after the other."""
