"""Frames and spectra of sounds."""
