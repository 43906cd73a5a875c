"""Where the journals of a device are stored.

`port` defines what every store offers; `sqlite` and `postgres` are the two stores; `machine` holds
tables that are true of one machine only.
"""
