"""Brings a repository into a plain directory with huggingface_hub.

Arguments: directory, repository, revision.
"""

import sys

from huggingface_hub import snapshot_download

directory, repo, revision = sys.argv[1:]
print(snapshot_download(repo, revision=revision, local_dir=directory))
