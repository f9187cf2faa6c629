"""Makes a cache with huggingface_hub from the Hub at HF_ENDPOINT.

Arguments: cache directory, repository, revision. Prints the snapshot folder.
"""

import sys

from huggingface_hub import snapshot_download

cache, repo, revision = sys.argv[1:]
print(snapshot_download(repo, revision=revision, cache_dir=cache))
