"""The dense engine, the reference of the packed one."""
