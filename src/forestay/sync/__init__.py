"""Sync sessions between devices through remotes that need not be trusted.

Words: a *device group* is the set of devices of one person (`circle` in stored formats); a *key
ring* holds the keys of one session; a *pack* is a sealed range of one device's chain of events; a
*place* is where the objects of a session are on a remote.

Main modules: `run` (one home and one remote), `pull`, `push`.
"""
