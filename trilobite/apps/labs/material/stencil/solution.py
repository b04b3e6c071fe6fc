"""A schedule for a blur: rows before columns, both stages row by row, vectors, threads."""


def schedule(s):
    s.reorder("i", "j").reorder("r", "c")  # walk along rows: neighbours share a line
    s.compute_at("i", "r")  # a row of the second stage right after the row it reads
    s.vectorise("j", 8).vectorise("c", 8)
    return s.parallelise("r")
