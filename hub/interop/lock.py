"""Takes a lock file with filelock, the library that huggingface_hub uses.

"hold PATH" takes it, prints "locked" and holds it until standard input
closes. "try PATH" prints "free" or "locked".
"""

import sys

from filelock import FileLock, Timeout

mode, path = sys.argv[1:]
lock = FileLock(path, timeout=0)
try:
    lock.acquire()
except Timeout:
    print("locked", flush=True)
    sys.exit(0)
if mode == "hold":
    print("locked", flush=True)
    sys.stdin.read()
else:
    print("free", flush=True)
lock.release()
