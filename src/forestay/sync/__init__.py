"""Sync sessions between devices through remotes that need not be trusted.

Words: a *device group* is the set of devices of one person (`circle` in stored formats); a *key
ring* holds the keys of one session; a *pack* is an encrypted file with consecutive events of one
device; a *place* is the part of a remote that has the objects of one session. A *chain* is the
events that one device wrote in a session, each with the hash of the one before it; its *head* is
its last event. An *epoch* is one key of a series, used until the next one replaces it. A *claim* is
the signed description inside an encrypted object. A *tombstone* is an event that erases others. To
*seal* is to encrypt for named keys.

Main modules: `run` (one home and one remote), `pull`, `push`.
"""
