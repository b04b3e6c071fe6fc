"""The instruction table, one module per family. A new row goes to its family's end: opcodes are places."""
