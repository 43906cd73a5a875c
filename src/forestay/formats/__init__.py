"""The five file formats: they turn the bytes of session files into facts, and back. Pure.

A *format* reads the files of a session into *facts*, and writes facts into files. Each format is
one folder; code outside these folders names no format. Main modules: `port` (the interface of a
format), `facts` (the values that all formats share), `three_way` (merges an edit with newer state).
"""
