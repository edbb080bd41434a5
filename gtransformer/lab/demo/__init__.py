"""The demonstration corpus: a seeded grammar of English-German letters whose correct German needs context.

The English pronoun "it" takes the gender of an antecedent some sentences back, "you" the register of the greeting that
opened the document, and a few ambiguous nouns the sense that an earlier sentence gave them. Everything else can be
translated sentence by sentence, in one way only.
"""
