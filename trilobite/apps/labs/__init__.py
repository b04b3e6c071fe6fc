"""The labs of the course: a task each, a file to begin with, a solution, and a grader.

Enters: a lab's name and a student's file. Leaves: which parts are right, and for those that are not the
smallest input that shows it. `catalogue.py` lists the labs; each has a module beside it that judges, and a
folder below `material/` with what the student reads. Read `task.py` first.
"""
