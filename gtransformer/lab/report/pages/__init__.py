"""Pages for a browser, each one file that needs nothing beside it: systems side by side, and a look inside a model."""
