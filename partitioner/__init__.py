"""Deciding what runs on the VPU, and reporting it."""
