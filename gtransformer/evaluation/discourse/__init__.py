"""F1 of pronoun and formality translation, English to German.

Herold and Ney (2023), "Improving Long Context Document-Level Machine Translation", section 3.5 and appendix A.1.
"""
