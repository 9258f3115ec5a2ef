"""Execute notebooks from top to bottom and save them with their outputs, ready to commit: `python tools/execute.py nbs/02_knockoffs.ipynb` (default: all)."""
import os
import subprocess
import sys

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # same digits and no stalls, whatever the machine is doing

import nbformat
import notebooks as nbs
from nbclient import NotebookClient

KERNEL = {"display_name": "python3", "language": "python", "name": "python3"}


def execute(path) -> None:
    "Run one notebook; what it prints in pieces is saved as one output, so that two runs give the same bytes"
    notebook = nbformat.read(path, 4)
    NotebookClient(notebook, timeout=900, kernel_name="python3", coalesce_streams=True, resources={"metadata": {"path": str(nbs.NBS)}}).execute()
    notebook.metadata = {"kernelspec": KERNEL}
    for cell in notebook.cells: cell.metadata.pop("execution", None)
    nbformat.write(notebook, path)
    subprocess.run(["nbdev_clean", "--fname", str(path)], cwd=nbs.ROOT, check=True)


if __name__ == "__main__":
    for path in sys.argv[1:] or nbs.paths():
        print(path)
        execute(path)
