"""The journal: the only writer of events, and everything that reads or carries them whole.

Main modules: `journal` (append and read), `verify` (is it as it was written), `backup`.
"""
