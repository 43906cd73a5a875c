"""Sync sessions between devices through remotes that need not be trusted.

Words: a *device group* is the set of devices of one person (`circle` in stored formats); a *key
ring* holds the keys of one session; a *pack* is an encrypted file with consecutive events of one
device; a *place* is the part of a remote that has the objects of one session. To *seal* is to
encrypt for named keys.

Main modules: `run` (one home and one remote), `pull`, `push`.
"""
