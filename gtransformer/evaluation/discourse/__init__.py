"""F1 of pronoun and formality translation, English to German (window-attention paper, section 3.5, appendix A.1)."""
