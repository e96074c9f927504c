"""Lists the names of TensorFlow 1.x that programs use and aioexec lacks: `python -m tests.programs.scan DIR…`.

Method: all Python files below the folders that import TensorFlow are read; what is no Python 3 is counted apart. Names are
followed from the imports through aliases and assignments, as `aioexec port` does, each file by itself. A name counts once a
file. A file finds every name if none is missing; names of TensorFlow before 1.0 count as found, as the port imports them.
"""

import sys
import warnings
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from aioexec.porting.imports import imports_tensorflow, missing_names, rewrite_imports
from aioexec.porting.inference import Inference
from aioexec.porting.scopes import Module
from aioexec.porting.source import Source


def programs(folders: list[str]) -> Iterator[Path]:
    for folder in folders:
        for path in sorted(Path(folder).rglob("*.py")):
            if path.is_file() and "tensorflow" in path.read_text(encoding="utf-8", errors="replace"):
                yield path


def missing(path: Path) -> set[str] | None:
    """The names that a file misses; None if it does not import TensorFlow.

    Raises:
        SyntaxError: it is no Python 3.
    """
    source = Source(str(path), path.read_text(encoding="utf-8", errors="replace"))
    if not imports_tensorflow(source):
        return None
    module = Module(source)
    inference = Inference({str(path): module})
    inference.run()
    findings = missing_names(module, inference) + rewrite_imports(source, module, inference)
    return {text.split("`")[1] for each in findings if (text := each.message).startswith("aioexec has no")}


def main(folders: list[str]) -> None:
    """Scan, and print the missing names of each file, the share of files without any, and the names by files."""
    warnings.simplefilter("ignore")  # of literals in the programs
    files = complete = unreadable = 0
    count: Counter[str] = Counter()
    for path in programs(folders):
        try:
            names = missing(path)
        except (SyntaxError, ValueError):
            unreadable += 1
            continue
        if names is not None:
            files += 1
            complete += not names
            count.update(names)
            if names:
                print(f"{path}: {', '.join(sorted(names))}")
    print(
        f"\n{complete} of {files} files find every name ({complete / max(files, 1):.1%}); {unreadable} are no Python 3"
    )
    for name, number in count.most_common():
        print(f"{number:5} {name}")


if __name__ == "__main__":
    main(sys.argv[1:])
