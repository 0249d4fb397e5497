"""What a worker of the server's may do on its host: read what it computes with, write what it keeps, and no more.

A worker reads texts that anybody has written. Should a fault of a library let one of them run code of its own, that
code still opens no other files (Landlock), reaches no network and starts no process that it has no use for (seccomp),
and takes no more memory, descriptors or room on a disk than a worker may (limits). Neither needs a privilege; what a
host does not give is left out, and `explorer doctor` says so.
"""
