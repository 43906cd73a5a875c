"""Shipped for the tests of others: what a store must do, and histories to hold.

`contracts` needs pytest; nothing of this package is loaded by the program itself.
"""
