"""The five file formats: bytes to facts and back. Pure.

A *format* reads the files of a session into *facts* and writes state into files. Each format is
one folder; nothing outside the folders names one. Main modules: `port` (what a format offers),
`facts` (what they all mean), `three_way` (edits against newer state).
"""
