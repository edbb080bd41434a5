"""From raw documents to what fairseq reads: cleaning, subwords, instances, binaries; and back."""
