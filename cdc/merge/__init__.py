"""One order over the data nodes of a distributed database: sort each node, merge, glue, count.

Pure steps over arrays: what is read, waited for and written is elsewhere.
"""
