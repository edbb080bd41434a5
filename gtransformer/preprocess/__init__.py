"""From raw documents to what fairseq reads: clean, tokenise, truecase, BPE, instances, binaries; and the way back."""
