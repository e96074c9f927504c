"""The tutorials' modules that programs import."""
