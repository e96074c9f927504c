"""The command `aioexec port`: rewrites programs of TensorFlow 1.x for aioexec.

A port goes through these modules:

1. `source.py` parses a file, and applies edits to its text: what no edit covers stays as it was, comments and layout
   included.
2. `scopes.py` lists the functions, classes and names of a file.
3. `inference.py` finds out, over all files together, which expressions are sessions, savers, functions of the program and
   so on. `api.py` reads off aioexec itself what has to be awaited.
4. `coroutines.py` decides which calls are awaited, and hence which functions become `async`.
5. `rewriting.py`, `module_level.py`, `imports.py` and `other_libraries.py` make the edits.

The syntax trees are those of `ast`. Rejected: LibCST, whose trees keep the layout too. The edits are few and local, so that
places in the text are enough, and the command needs no library besides Python's own.
"""
