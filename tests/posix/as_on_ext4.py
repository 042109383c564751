"""What ext4 does with removed folders, file handles, sparse files, set-user-id and stores beyond the end of a file, in the
current folder.

`as_on_ext4.py removed|handles|sparse|privileges|grown`; fails with the first assertion that does not hold.
"""

import ctypes
import errno
import mmap
import os
import stat
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
MIB = 1 << 20


def refused(action, expected):
    try:
        action()
    except OSError as error:
        assert error.errno == expected, f"{errno.errorcode[error.errno]}, not {errno.errorcode[expected]}"
    else:
        raise AssertionError(f"it is allowed, and not {errno.errorcode[expected]}")


def removed():
    """A folder, and what else has no name any more, is still there for who has it open."""
    for take_away in [os.rmdir, lambda path: (os.mkdir("empty"), os.rename("empty", path), os.rmdir(path))]:
        os.mkdir("folder")
        handle = os.open("folder", os.O_RDONLY | os.O_DIRECTORY)
        number = os.fstat(handle).st_ino
        take_away("folder")
        found = os.fstat(handle)
        assert (found.st_ino, found.st_nlink) == (number, 0), found
        assert os.listdir(handle) == []
        os.fchmod(handle, 0o711)
        os.utime(handle, (5, 6))
        os.fchown(handle, 12, 34)
        found = os.fstat(handle)
        assert (found.st_mode & 0o7777, found.st_mtime, found.st_uid) == (0o711, 6, 12), found
        refused(lambda: os.open("file", os.O_CREAT | os.O_WRONLY, dir_fd=handle), errno.ENOENT)
        refused(lambda: os.mkdir("sub", dir_fd=handle), errno.ENOENT)
        refused(lambda: os.stat("..x", dir_fd=handle), errno.ENOENT)
        os.close(handle)
        refused(lambda: os.stat("folder"), errno.ENOENT)

    home = os.getcwd()
    os.mkdir("working")
    os.chdir("working")
    os.rmdir("../working")
    refused(os.getcwd, errno.ENOENT)
    assert os.stat(".").st_nlink == 0 and os.listdir(".") == []
    os.chdir("..")
    assert os.getcwd() == home

    os.mkfifo("pipe")
    os.symlink("nowhere", "link")
    for name in ["pipe", "link"]:
        handle = os.open(name, os.O_PATH | os.O_NOFOLLOW)
        os.unlink(name)
        assert os.fstat(handle).st_nlink == 0
        os.close(handle)


class FileHandle(ctypes.Structure):
    _fields_ = [("handle_bytes", ctypes.c_uint), ("handle_type", ctypes.c_int), ("handle", ctypes.c_ubyte * 128)]


def handle_of(path):
    handle, mount = FileHandle(128), ctypes.c_int()
    if LIBC.name_to_handle_at(-100, path.encode(), ctypes.byref(handle), ctypes.byref(mount), 0):
        raise OSError(ctypes.get_errno(), "name_to_handle_at", path)
    return handle


def open_by(handle, flags):
    root = os.open(".", os.O_RDONLY)
    opened = LIBC.open_by_handle_at(root, ctypes.byref(handle), flags)
    error = ctypes.get_errno()
    os.close(root)
    if opened < 0:
        raise OSError(error, "open_by_handle_at")
    return opened


def forget_names():
    """The kernel keeps no dentry and no inode that nobody uses."""
    os.sync()
    with open("/proc/sys/vm/drop_caches", "w") as drop:
        drop.write("2")


def read_by(handle):
    opened = open_by(handle, os.O_RDONLY)
    try:
        return os.read(opened, 100)
    finally:
        os.close(opened)


def handles():
    """A file handle finds its inode as long as that lives, whatever its name, and nothing afterwards."""
    os.makedirs("deep/down")
    for name in ["deep/down/file", "deep/down/open"]:
        with open(name, "w") as file:
            file.write(name)
    file, folder, kept = (handle_of(name) for name in ["deep/down/file", "deep/down", "deep/down/open"])
    for change in [
        lambda: None,
        lambda: os.rename("deep/down/file", "moved"),
        lambda: os.link("moved", "deep/second"),
        lambda: os.unlink("moved"),
        lambda: os.rename("deep/down", "aside"),
    ]:
        change()
        assert read_by(file) == b"deep/down/file"
        forget_names()
        assert read_by(file) == b"deep/down/file"
        opened = open_by(folder, os.O_RDONLY | os.O_DIRECTORY)
        assert "open" in os.listdir(opened)
        os.close(opened)
    opened = open_by(folder, os.O_RDONLY | os.O_DIRECTORY)
    assert os.readlink(f"/proc/self/fd/{opened}") == os.getcwd() + "/aside"
    os.close(opened)

    writer = open_by(file, os.O_RDWR)
    os.pwrite(writer, b"more", 0)
    os.close(writer)
    with open("deep/second") as again:
        assert again.read() == "more/down/file"

    holder = os.open("aside/open", os.O_RDONLY)
    os.unlink("aside/open")
    forget_names()
    assert read_by(kept) == b"deep/down/open"
    os.close(holder)
    os.unlink("deep/second")
    os.rmdir("aside")
    forget_names()
    for gone, flags in [(file, os.O_RDONLY), (kept, os.O_RDONLY), (folder, os.O_RDONLY | os.O_DIRECTORY)]:
        refused(lambda: os.close(open_by(gone, flags)), errno.ESTALE)


def space_of(name):
    forget_names()
    return os.stat(name).st_blocks * 512


def sparse():
    """A hole takes no space, also when nobody has the file open any more."""
    slack = MIB // 2

    def is_near(name, expected):
        found = space_of(name)
        assert expected <= found <= expected + slack, f"{name} takes {found}, not {expected}"

    with open("end", "wb") as file:
        file.seek(50 * MIB)
        file.write(b"x")
    is_near("end", 0)
    with open("grown", "wb") as file:
        file.write(bytes(MIB))
        file.truncate(40 * MIB)
    is_near("grown", MIB)
    with open("longer", "wb") as file:
        file.write(bytes(MIB))
    is_near("longer", MIB)
    os.truncate("longer", 30 * MIB)
    is_near("longer", MIB)
    with open("longer", "r+b") as file:
        file.seek(29 * MIB)
        file.write(os.urandom(MIB))
    is_near("longer", 2 * MIB)
    with open("punched", "wb") as file:
        file.write(os.urandom(8 * MIB))
    subprocess.run(["fallocate", "--punch-hole", "-o", "0", "-l", str(7 * MIB), "punched"], check=True)
    is_near("punched", MIB)
    with open("full", "wb") as file:
        for at in reversed(range(8)):
            file.seek(at * MIB)
            file.write(os.urandom(MIB))
    is_near("full", 8 * MIB)
    os.truncate("full", 3 * MIB)
    is_near("full", 3 * MIB)
    said = subprocess.run(["du", "-sm", "."], check=True, capture_output=True, text=True).stdout
    assert int(said.split()[0]) <= 12, said


def as_other(*words):
    subprocess.run(["setpriv", "--reuid=1234", "--regid=1234", "--clear-groups", *words], check=True)


def privileges():
    """Whatever changes the bytes as an ordinary user clears set-user-id, and everybody sees it at once."""
    os.chmod(".", 0o755)
    for name, change in {
        "write": "import os; os.pwrite(os.open('write', os.O_WRONLY), b'x', 0)",
        "truncate": "import os; os.truncate('truncate', 1)",
        "allocate": "import os; os.posix_fallocate(os.open('allocate', os.O_WRONLY), 0, 10000)",
        "overwrite": "import os; os.open('overwrite', os.O_WRONLY | os.O_TRUNC)",
    }.items():
        with open(name, "wb") as file:
            file.write(b"text")
        os.chmod(name, 0o6777)
        assert stat.S_IMODE(os.stat(name).st_mode) == 0o6777
        as_other("python3", "-c", change)
        # coreutils ask for nothing but the mode: what the kernel knows of it must be true, too.
        alone = int(subprocess.run(["stat", "-c", "%a", name], check=True, capture_output=True).stdout, 8)
        found = stat.S_IMODE(os.stat(name).st_mode)
        assert found == alone == 0o777, f"after {name} the mode is {found:o}, and by itself {alone:o}"

    # Whatever way the kernel took for the handle from before, one that comes later sees the same file.
    with open("kept", "wb") as file:
        file.write(b"text")
    os.chmod("kept", 0o4755)
    reader = os.open("kept", os.O_RDONLY)
    assert os.read(reader, 4) == b"text"
    os.chmod("kept", 0o755)
    writer = os.open("kept", os.O_RDWR)
    os.pwrite(writer, b"more", 0)
    assert os.pread(reader, 4, 0) == b"more"


def grown():
    """What a mapping stored beyond the end of a file is not in it when it grows; what it stores afterwards is."""
    page = 4096
    ways = {
        "same page": lambda file: os.pwrite(file, b"x", 300),
        "next page": lambda file: os.pwrite(file, b"x", page + 300),
        "far": lambda file: os.pwrite(file, b"x", 500_000),
        "truncate": lambda file: os.ftruncate(file, page + 300),
        "truncate in the page": lambda file: os.ftruncate(file, 300),
        "allocate": lambda file: os.posix_fallocate(file, 0, 2 * page),
        "twice": lambda file: (os.ftruncate(file, 300), os.pwrite(file, b"x", 2 * page)),
    }
    for name, grow in ways.items():
        # A handle that only reads, if there is one before, has the kernel keep the file's pages.
        for reads_before in [False, True]:
            if reads_before and name == "same page":
                continue  # The kernel has that page locked while it hands the write on.
            with open(name, "wb") as file:
                file.write(b"a" * page)
            reader = os.open(name, os.O_RDONLY) if reads_before else None
            file = os.open(name, os.O_RDWR)
            mapped = mmap.mmap(file, page)
            os.ftruncate(file, 100)
            mapped[50:54], mapped[200:204] = b"kept", b"junk"
            grow(file)

            def finds(expected):
                mapped_bytes, read = mapped[200:204], os.pread(file, 4, 200)
                assert (mapped_bytes, read) == (expected, expected), (name, reads_before, mapped_bytes, read)

            finds(bytes(4))
            mapped.flush()
            finds(bytes(4))
            mapped[200:204] = b"good"
            mapped.flush()
            finds(b"good")
            mapped.close()
            os.close(file)
            if reads_before:
                os.close(reader)
            with open(name, "rb") as again:
                found = again.read(300)
            assert found[:100] == b"a" * 50 + b"kept" + b"a" * 46, (name, found)
            assert found[100:] == bytes(100) + b"good" + bytes(96), (name, found)


{"removed": removed, "handles": handles, "sparse": sparse, "privileges": privileges, "grown": grown}[sys.argv[1]]()
