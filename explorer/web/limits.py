"""What the server accepts and for how long it works: every bound in one place, each with its sentence elsewhere."""

from __future__ import annotations

import os

BODY_BYTES = 256 * 1024
"""A request's body, and a WebSocket message. A program may have 64 KiB, which JSON can double and more."""
DRAIN_BYTES = 32 * 1024 * 1024
"""How much of a too large body is read and dropped, so that the client gets to read the answer."""
BODY_SECONDS = 30.0
HEAD_BYTES = 64 * 1024
"""A request's line and headers."""
HEAD_SECONDS = 15.0
"""How long a connection may be without a whole request's head, from when it is made or was last answered."""
STALL_SECONDS = 30.0
"""How long a client may take nothing of what is sent to it."""
CONNECTIONS = 2048
"""Of these, as many as there are file descriptors for; the rest of those are for workers and what is being read."""
OTHER_FILES = 200

COMPILE_SECONDS = 15.0
STAGES_SHARE = 0.8
"""Of that time, what its stages may take: the rest is for telling those that were made, where one took too long."""
COMPILE_MEMORY = 2 << 30
COMPILE_CACHE_BYTES = 32 << 20
"""Compilations kept, by content: the length of their JSON, of which Python makes some six times as much, and of what
was asked. A class that opens one example costs one compilation."""
SHARED_CACHE_BYTES = 64 << 20
"""The same where several processes share them, in a file and packed to a sixth."""
CLAIM_SECONDS = 5.0
"""How long a process waits for an answer that another one makes, before it makes it too."""
LOOK_AGAIN_SECONDS = 0.05
"""How often it looks whether that is there."""
COMPILES_WAITING = 200
LATE_NICENESS = 10
"""How far workers that make machine code make way for those that compile what is typed, whose niceness is 1."""
LATE_ENDS_SECONDS = 1.5
"""What such a worker may take of a core for what nobody waits for any more: as much as starting another one does."""
QUICK_SECONDS = 2.0
"""A compilation that takes longer is slow: it may not hold the last place, and its session's next begins as a slow one.
Four of five examples take less than a tenth."""
ALONE_SECONDS = 2.0
"""How long one goes on that nobody waits for any more: an answer to the next edit may still be had from it."""
SLOW_SESSIONS = 1_000
"""Sessions whose last compilation was slow, of which that is remembered."""

DROPPED_BYTES = 16 << 20
"""A data file that a student drops onto the page."""
DROPPED_UNPACKED_BYTES = 128 << 20
"""What the arrays of one say that they take."""
DROPPED_OF_STUDENT = 4
"""Of one student; a newer one takes the place of the oldest."""
DROPPED_TOTAL_BYTES = 512 << 20
DROPPED_COMING = 8
"""Files that arrive, or wait to be read, at a time; one is read at a time."""
DROPPED_BODY_SECONDS = 60.0
DROPPED_READ_SECONDS = 30.0
DROPPED_GRACE_SECONDS = 60.0
"""How long one is kept once its student has no page open: a page that is loaded again finds it."""
DROPPED_SECONDS = 6 * 3600.0
DROPPED_LOOK_SECONDS = 10.0
"""How often it is looked which are to go."""
LONGEST_FILE_NAME = 200

REUSE_KEPT = 64
"""Distributions of reuse distances that are kept, of 4 kB."""

RUN_SECONDS = 30.0
PEER_COMPILE_SECONDS = 60.0
"""How long torch.compile may compile beside a run, which may take so much longer: 13 s of two cores for TransR."""
RUN_MEMORY = 4 << 30
STOP_SECONDS = RUN_SECONDS + PEER_COMPILE_SECONDS
"""How long runs may go on once the server has been asked to end."""
SOCKETS = 500
SOCKETS_PER_STUDENT = 12
"""Open pages of one browser."""
RUNS_WAITING = SOCKETS + 100
"""A run of every open page, and some of scripts."""
RUNS_WAITING_PER_STUDENT = 8
"""Of those, how many may be one browser's, or one address's by the JSON API, so that nobody fills the queue."""
TELL_SECONDS = 0.5
"""How often those who wait are told their positions."""

STUDENTS_KNOWN = 1_000
"""Students of whom edits and runs are counted where no code says who is one: those that came last."""
CLASS_PLACES = 100
"""Students that a class with a code has room for, unless `--class-size` says otherwise."""
MOST_PLACES = 1_000
SERVERS_KNOWN = 100
"""Servers of one class, those that have ended with them, whose students' edits and runs are counted."""
IDLE_SECONDS = 60.0
"""A student who has asked for nothing for so long is idle."""
NAME_LENGTH = 60
"""Characters of a student's name, or of what a text that the instructor sends is called."""
SENT_BYTES = 64 * 1024
"""A text that the instructor sends, or a student hands in: as long as a program may be."""
WRONG_TRIES = 20
WRONG_SECONDS = 60.0
"""So many wrong tokens may come from one address in so many seconds; after that none is looked at."""
WRONG_CODES = 100
"""The same for a class's code, which a whole class types behind one address."""
TRIED_ADDRESSES = 1_000
"""Addresses of which wrong tries are remembered."""
INSTRUCTOR_SECONDS = 12 * 3600
"""How long an instructor's browser is known."""
HAND_INS_BYTES = 64 << 20
"""What all hand-ins may take together."""
HAND_INS = 5_000
HAND_INS_PER_STUDENT = 20
"""Of one student; a newer one takes the place of the oldest."""
HAND_INS_SHOWN = 200
"""The newest, in the instructor's list; the archive has all."""
CHECK_SEEDS = 10
"""The inputs that a hand-in may be checked on."""
CHECK_BATCH = 256

MOST_PROCESSES = 64
NUMBERS_SECONDS = 1.0
"""How often a process tells the others its numbers."""

PACKED_FROM_BYTES = 1_000
"""An answer from this length on is compressed for a client that takes that."""
PACKING_LEVEL = 3
"""Of gzip: 48 kB of an edit's answer in 0.3 ms to 7.1 kB, 359 kB of a page in 2.6 ms to 59 kB; level 4 takes 0.5 and
4.2 ms for 6.6 and 56 kB, level 9 of the page 14 ms for 50 kB."""

KEPT_MARKUP_BYTES = 4 << 20
"""Of the parts of pages that come again with most edits: some 200 kB of a class that edits all examples."""

ROWS_REMEMBERED = 500_000
"""Of the texts that pages were sent last, some 40 bytes each: those of five hundred pages that are being edited."""
COMPARED_ROWS = 250_000
"""The product of two numbers of rows that are compared one with one: 20 ms at most."""

MAX_BATCH = 65_536
MAX_REPEAT = 1_000


def concurrent_runs() -> int:
    """Runs at a time: half the cores, since a CPU run uses several threads and its times should mean something."""
    return max(1, (os.cpu_count() or 1) // 2)


def concurrent_compiles() -> int:
    """Compilations at a time: at least two, so that a long text of one reader does not hold up another's typing, and
    one more, which keeps two cores busy while answers are read."""
    return max(3, (os.cpu_count() or 1) // 2)


def concurrent_late() -> int:
    """Machine code that is made at a time, by workers of its own."""
    return max(1, (os.cpu_count() or 1) // 4)
