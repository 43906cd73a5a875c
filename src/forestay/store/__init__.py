"""Where the journals of a device are stored.

`port` defines the interface of every store; `sqlite` and `postgres` are the two stores; `machine`
has the tables whose content is valid on one machine only.
"""
