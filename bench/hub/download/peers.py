"""Downloads one file with huggingface_hub: repository, file, cache."""

import sys

from huggingface_hub import hf_hub_download

repo, file, cache = sys.argv[1:]
hf_hub_download(repo, file, cache_dir=cache)
