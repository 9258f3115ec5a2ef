"""Execute notebooks from top to bottom and save them with their outputs, ready to commit.

    python tools/execute.py nbs/2_knockoffs/04_fixed_x.ipynb
    python tools/execute.py --jobs 4                 # all of them, four at a time

A notebook that fails is left as it was; the others are still run.
"""
import argparse
import os
import subprocess
import sys
import sysconfig
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # same digits and no stalls, whatever the machine is doing

import nbformat
from nbclient import NotebookClient

import notebooks as nbs

KERNEL = {"display_name": "python3", "language": "python", "name": "python3"}


def main():
    "The command line"
    verbatim = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=verbatim)
    parser.add_argument("notebooks", nargs="*", type=Path, help="default: all")
    parser.add_argument("--jobs", type=int, default=1, help="how many at a time (default: 1)")
    args = parser.parse_args()
    if args.jobs < 1: parser.error(f"--jobs {args.jobs}: pass 1 or more")
    with ThreadPoolExecutor(args.jobs) as pool:  # threads: one process hands out the kernels' ports
        failed = [name for name in pool.map(attempt, args.notebooks or nbs.paths()) if name]
    sys.exit(f"Failed: {', '.join(failed)}" if failed else 0)


def attempt(path: Path) -> str:
    "Run one notebook and say how it went; its name if it failed, else nothing"
    start = time.perf_counter()
    try: execute(path)
    except Exception as error:
        print(f"{path.name} failed:\n{error}", file=sys.stderr, flush=True)
        return path.name
    print(f"{path.name} {time.perf_counter() - start:.0f} s", flush=True)
    return ""


def execute(path: Path) -> None:
    "Run one notebook; what it prints in pieces is saved as one output, so that two runs give the same bytes"
    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", coalesce_streams=True,
                   resources={"metadata": {"path": str(path.resolve().parent)}}).execute()
    notebook.metadata = {"kernelspec": KERNEL}
    for cell in notebook.cells: cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)
    clean = Path(sysconfig.get_path("scripts")) / "nbdev_clean"
    subprocess.run([str(clean), "--fname", str(path.resolve())], cwd=path.resolve().parent, check=True)


if __name__ == "__main__": main()
