"""Keys and sealed bytes: the device group of a person, the key ring of a session, packs.

Main modules: `keys`, `device_group`, `key_ring`.
"""
