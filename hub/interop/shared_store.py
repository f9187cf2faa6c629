"""Counts the warnings of a scan and the shared contents that nothing refers to.

Argument: cache directory.
"""

import sys

from huggingface_hub import scan_cache_dir
from huggingface_hub.utils._shared_blobs import unreferenced_shared_blobs

cache = sys.argv[1]
scan = scan_cache_dir(cache)
print(f"{len(scan.warnings)} warnings, {len(unreferenced_shared_blobs(cache))} unreferenced")
