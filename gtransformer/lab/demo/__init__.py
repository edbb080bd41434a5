"""The demonstration corpus: a seeded grammar of English-German letters whose correct German needs
context.

The translation of "it" depends on the gender of an antecedent some sentences back. That of "you"
depends on the register of the greeting. That of a few ambiguous nouns depends on an earlier
sentence. Everything else has one translation that needs no context.
"""
