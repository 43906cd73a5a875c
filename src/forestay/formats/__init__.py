"""The five file formats: pure functions that turn bytes of session files into facts, and back.

A *format* reads the files of a session into *facts*, and writes facts into files. Each format is
one folder; code outside these folders names no format. Main modules: `port` (the interface of a
format), `facts` (the values that all formats share), `three_way` (merges an edit with newer state).
"""
