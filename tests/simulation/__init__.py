"""Deterministic simulation of whole workers: real code, virtual time, and a world that a seed decides."""
