"""A saved model at work on plain text: the model directory, the chain of text steps, search, and
the way back.
"""
