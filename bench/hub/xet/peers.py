"""Compares the download engine with the official clients, on loopback.

By hand, with Python's hf_xet and, in the current folder, npm's
@huggingface/hub installed:

    go -C bench/hub/xet build -o /tmp/xetbench .
    cd FOLDER-WITH-NODE-MODULES
    python bench/hub/xet/peers.py /tmp/xetbench /dev/shm [MiB] [runs] [serve|serve-test]

"serve" is the server of github.com/wzshiming/xet, "serve-test" this project's
test store. Each download runs in a fresh process and is compared with the
others byte by byte.
"""

import hashlib
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))


def official(job):
    import hf_xet

    with hf_xet.XetSession().new_file_download_group(
        endpoint=job["Token"]["CAS"],
        token=job["Token"]["Access"] or "none",
        token_expiry_unix_secs=int(time.time()) + 3600,
    ) as group:
        group.start_download_file(hf_xet.XetFileInfo(job["Hash"], job["Size"]), job["Out"])


def digest(path):
    with open(path, "rb") as f:
        return hashlib.file_digest(f, "sha256").hexdigest()


def main():
    if sys.argv[1] == "--official":
        return official(json.loads(sys.argv[2]))
    binary, folder = sys.argv[1:3]
    size = int(sys.argv[3]) if len(sys.argv) > 3 else 256
    runs = int(sys.argv[4]) if len(sys.argv) > 4 else 3
    role = sys.argv[5] if len(sys.argv) > 5 else "serve"
    tmp = tempfile.mkdtemp(dir=folder)
    job = {"Role": role, "Dir": tmp + "/store", "Size": size << 20, "Floats": True}
    server = subprocess.Popen([binary, "-child", json.dumps(job)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        job = json.loads(server.stdout.readline())
        job["Out"], job["Role"] = tmp + "/out", "ours"
        text = json.dumps(job)
        clients = {
            "ours": [binary, "-child", text],
            "hf_xet": [sys.executable, __file__, "--official", text],
            "@huggingface/hub": ["node", HERE + "/peers.mjs", text],
        }
        env = dict(os.environ, HF_HOME=tmp + "/hf", HF_XET_CACHE=tmp + "/cache", DO_NOT_TRACK="1", HF_HUB_DISABLE_TELEMETRY="1")
        times, sums = {name: [] for name in clients}, set()
        for _ in range(runs):
            for name, command in clients.items():
                start = time.monotonic()
                subprocess.run(command, check=True, env=env)
                times[name].append(time.monotonic() - start)
                sums.add(digest(job["Out"]))
                os.remove(job["Out"])
                shutil.rmtree(tmp + "/cache", ignore_errors=True)
        assert len(sums) == 1, "the downloads differ"
        best = statistics.median(times["ours"])
        for name, t in times.items():
            m = statistics.median(t)
            print(f"{name:17} median {m:.3f} s of {[round(x, 3) for x in t]}, ours is {m / best:.2f} times as fast")
    finally:
        server.stdin.close()
        server.wait()
        shutil.rmtree(tmp)


main()
