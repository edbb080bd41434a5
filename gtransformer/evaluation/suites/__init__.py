"""Published contrastive test suites: ContraPro (English-German) and those of Voita et al. (English-Russian)."""
