"""Takes the trained models through the whole road and prints a row of a table for each.

    python bench/trained/road.py --cache CACHE [--model NAME]...

For each model: the package is downloaded and converted, hubtestd serves the repository, `hfcompress plan`
counts, `hfcompress --repo` compresses from the endpoint, once more with --offline, and both packages are
equal byte for byte; `hfcompress verify` reads the package again and compares it with the source, and
`compare` its outputs with the reference's (goldens/). Anything that is not as it has to be ends the
program. CACHE, outside the repository, keeps packages, repositories, programs and results. Needs Go.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import time

import models

ROOT = models.ROOT
GOLDENS = pathlib.Path(__file__).resolve().parent / "goldens"


def build(cache):
    programs = {"hfcompress": "./cmd/hfcompress", "hubtestd": "./hub/hubtest/hubtestd", "compare": "./bench/trained/compare"}
    for name, package in programs.items():
        subprocess.run(["go", "build", "-o", cache / "bin" / name, package], cwd=ROOT, check=True)


def timed(args, **extra):
    """Output, seconds and peak MiB of a command that has to succeed."""
    before = time.monotonic()
    p = subprocess.Popen(args, stdout=subprocess.PIPE, text=True, **extra)
    text = p.stdout.read()
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    if p.returncode:
        sys.exit(f"{' '.join(map(str, args))}: status {p.returncode}\n{text}")
    return text, time.monotonic() - before, usage.ru_maxrss / 1024


def expect(condition, what):
    if not condition:
        sys.exit(f"not as it has to be: {what}")


def same_folder(a, b):
    def content(folder):
        return {p.relative_to(folder): p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    first, second = content(a), content(b)
    expect(first.keys() == second.keys(), f"{a} and {b} hold different files")
    different = [str(name) for name in first if first[name] != second[name]]
    expect(not different, f"{different} of two runs differ")


def check_plan(plan, report):
    """The planner's numbers, from headers alone, are those of the run."""
    passes = {p["block"]: p for p in plan["checkpoints"][0]["passes"] if p.get("rows") or p["kind"] == "lookup"}
    saved = 0
    for block in report["blocks"]:
        p = passes.get(block["path"])
        expect(p is not None, f"the plan has no block {block['path']}: {sorted(passes)}")
        if block["status"] == "compiled":
            expect(p["verdict"] == "saves" and p["saved"]["values"] == block["plan"]["values_saved"], f"{block['path']}: {p['saved']}")
            saved += p["saved"]["values"]
        else:
            expect(p["verdict"] == "refused" and p["reason"] == block["reason"], f"{p['reason']!r} and {block['reason']!r}")
    expect(report["values"]["before"] - report["values"]["after"] == saved, f"{saved} values planned")
    return saved


def road(name, cache, address):
    model = models.MODELS[name]
    hfcompress, work = cache / "bin" / "hfcompress", cache / "runs" / name
    shutil.rmtree(work, ignore_errors=True)
    work.mkdir(parents=True)
    common = ["--endpoint", address, "--cache-dir", work / "hub-cache"]
    plan = json.loads(timed([hfcompress, "plan", model.repo, "--json", "--quiet", *common])[0])
    base = [hfcompress, "--repo", model.repo, "--json", "--quiet", "--require", "bitwise", *common]
    text, seconds, peak = timed([*base, "--out", work / "first"])
    report = json.loads(text)
    text, offline, _ = timed([*base, "--out", work / "second", "--offline", "--endpoint", "http://127.0.0.1:1"])
    again = json.loads(text)
    expect(report["status"] == again["status"], "the second run ended otherwise")
    same_folder(work / "first", work / "second")
    expect(report["gate"]["bitwise"] and report["reload"]["bitwise"], "not the source's bits")
    saved = check_plan(plan, report)
    commit = report["source"]["commit"]
    verified = json.loads(timed([hfcompress, "verify", work / "first", "--against", f"{model.repo}@{commit}", "--json", "--quiet", *common])[0])
    expect(verified["verified"] and verified["against"]["bitwise"], "verify")
    golden = GOLDENS / f"{name}.safetensors"
    if isinstance(model, models.Kept) and not golden.exists():
        golden = ROOT / model.folder / "golden.safetensors"
    compared = timed([cache / "bin" / "compare", work / "first", golden])[0].strip()
    before, disk = report["values"]["before"], report["bytes"]["disk"]
    if report["status"] == "compressed":
        outcome = f"{saved:,} ({100 * saved / before:.2f} %)"
    else:
        outcome = report["status"] + ": " + "; ".join(b["reason"] for b in report["blocks"])
    result = {
        "model": name, "package": model.package, "licence": model.licence, "family": report["architecture"], "values": before, "status": report["status"],
        "outcome": outcome, "disk_before": disk["before"], "disk_after": disk["after"], "seconds": round(seconds, 1),
        "offline_seconds": round(offline, 1), "peak_mib": round(peak), "outputs": compared, "examples": report["reload"]["examples"],
    }
    (work / "result.json").write_text(json.dumps(result, indent=2, ensure_ascii=False) + "\n")
    return result


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--cache", type=pathlib.Path, required=True)
    p.add_argument("--model", action="append", choices=models.MODELS)
    p.add_argument("--prepare", action="store_true", help="only download, convert and build")
    a = p.parse_args()
    cache = a.cache.resolve()
    names = a.model or list(models.MODELS)
    # In a process of its own: this one stays small, since a child's peak memory begins with its parent's.
    subprocess.run([sys.executable, models.__file__, "--cache", cache, *names], check=True)
    build(cache)
    if a.prepare:
        return
    server = subprocess.Popen([cache / "bin" / "hubtestd", "--dir", cache / "hub", "--until-eof"], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, text=True)
    try:
        address = next(word for word in server.stdout.readline().split() if word.startswith("http://"))
        print("| model | source package | licence | family | values | saved, or why not | on disk before, after | first run, offline, peak |")
        print("| --- | --- | --- | --- | --- | --- | --- | --- |")
        for name in names:
            r = road(name, cache, address)
            print(f"| {r['model']} | {r['package']} | {r['licence']} | `{r['family']}` | {r['values']:,} | {r['outcome']} | "
                  f"{r['disk_before']:,}, {r['disk_after']:,} | {r['seconds']} s, {r['offline_seconds']} s, {r['peak_mib']} MiB |", flush=True)
            print(f"{name}: {r['examples']} examples; {r['outputs']}", file=sys.stderr)
    finally:
        server.stdin.close()
        server.wait(10)


if __name__ == "__main__":
    main()
