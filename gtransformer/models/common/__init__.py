"""What all document models share: embeddings, layers that declare their attention, encoder, decoder
and decoding.
"""
