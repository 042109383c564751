"""One process writes the pages of a file again and again, another reads them: `reader` or `writer` opens it first."""

import mmap
import os
import struct
import sys

PAGES, PAGE, WRITES = 8, 4096, 1000
NAME = "beside-a-writer"

first = sys.argv[1]
with open(NAME, "wb") as file:
    file.write(bytes(PAGES * PAGE))
if first == "reader":
    reader = os.open(NAME, os.O_RDONLY)
    os.pread(reader, PAGES * PAGE, 0)
writer = os.open(NAME, os.O_WRONLY)
if first == "writer":
    reader = os.open(NAME, os.O_RDONLY)

# What each page holds at least, as the writer tells once its write has returned; then whether it is at its end.
told = mmap.mmap(-1, 8 * (PAGES + 1))


def tell(place, number):
    struct.pack_into("Q", told, 8 * place, number)


def heard(place):
    return struct.unpack_from("Q", told, 8 * place)[0]


child = os.fork()
if child == 0:
    for number in range(1, WRITES + 1):
        page = number % PAGES
        os.pwrite(writer, struct.pack("Q", number) * (PAGE // 8), page * PAGE)
        tell(page, number)
    tell(PAGES, 1)
    os._exit(0)

over = False
while not over:
    over = heard(PAGES) == 1
    for page in range(PAGES):
        before = heard(page)
        seen = struct.unpack("Q", os.pread(reader, 8, page * PAGE))[0]
        assert seen >= before, f"page {page} has {seen} when {before} was written"
assert os.waitpid(child, 0)[1] == 0
