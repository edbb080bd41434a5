"""Group tags, instances, the document dataset and word dropout."""
