"""Describes a cache with huggingface_hub's scan_cache_dir.

Arguments: cache directory, revision to plan the deletion of…
Prints one JSON object.
"""

import json
import sys

from huggingface_hub import scan_cache_dir

cache, *revisions = sys.argv[1:]
scan = scan_cache_dir(cache)
plan = scan.delete_revisions(*revisions)
print(
    json.dumps(
        {
            "size": scan.size_on_disk,
            "incomplete": sorted(str(f.file_path) for f in scan.incomplete_files),
            "warnings": len(scan.warnings),
            "freed": plan.expected_freed_size,
            "repos": {
                f"{r.repo_type}/{r.repo_id}": {
                    "size": r.size_on_disk,
                    "files": r.nb_files,
                    "accessed": r.last_accessed,
                    "modified": r.last_modified,
                    "revisions": {
                        v.commit_hash: {
                            "size": v.size_on_disk,
                            "refs": sorted(v.refs),
                            "modified": v.last_modified,
                            "blobs": {
                                f.file_path.relative_to(v.snapshot_path).as_posix(): str(f.blob_path) for f in v.files
                            },
                        }
                        for v in r.revisions
                    },
                }
                for r in scan.repos
            },
        }
    )
)
