"""Estimators with a model of their own: deep, linear, both together, or a constant."""
