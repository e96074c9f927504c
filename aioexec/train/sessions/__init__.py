"""Monitored sessions, session managers and creators, supervisors and evaluation."""
