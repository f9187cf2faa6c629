"""Reads a cache made by hfcompress with huggingface_hub, without network.

Arguments: cache directory, repository, revision, expected commit, file…
Prints one JSON object with what was found.
"""

import json
import os
import sys

os.environ["HF_HUB_OFFLINE"] = "1"

from huggingface_hub import hf_hub_download, scan_cache_dir, snapshot_download, try_to_load_from_cache  # noqa: E402

cache, repo, revision, commit, *files = sys.argv[1:]

scan = scan_cache_dir(cache)
folder = snapshot_download(repo, revision=revision, cache_dir=cache, local_files_only=True)
paths = {f: hf_hub_download(repo, f, revision=revision, cache_dir=cache) for f in files}
by_commit = {f: hf_hub_download(repo, f, revision=commit, cache_dir=cache) for f in files}
assert paths == by_commit, (paths, by_commit)
missing = try_to_load_from_cache(repo, "not_there.json", cache_dir=cache, revision=revision)

print(
    json.dumps(
        {
            "warnings": [str(w) for w in scan.warnings],
            "repos": [r.repo_id for r in scan.repos],
            "refs": {r.repo_id: sorted(r.refs) for r in scan.repos},
            "folder": folder,
            "paths": paths,
            "known_missing": missing is not None and not isinstance(missing, str),
        }
    )
)
