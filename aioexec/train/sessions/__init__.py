"""Monitored sessions, their managers and creators, supervisors and evaluation."""
