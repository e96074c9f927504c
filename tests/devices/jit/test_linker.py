"""Linking with little address space: an object is linked or refused, and the process survives."""

import subprocess
import sys
from pathlib import Path

import pytest

PRELUDE = '''
import ctypes, mmap, resource
import numpy as np
from aioexec.devices.jit.linker import Linker
from aioexec.devices.jit.objects import ObjectRefusedError
from aioexec.devices.jit.target import IrCompiler, host

compiler, linker = IrCompiler(host()), Linker()
ten = compiler.compile_ir("k", """
define i64 @k(ptr %block, ptr %frame) {
  %x = load double, ptr %block
  %y = fmul double %x, 2.5
  %i = fptosi double %y to i64
  ret i64 %i
}""")


def run(code):
    function = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p)(linker.link(code))
    return function(np.array([4.0]).ctypes.data, None)


run(ten)  # LLVM has made whatever it needs itself
'''
"""The constant and the code of `ten` are in two sections; one finds the other by an offset of 32 bits."""

ROOM_FAR_APART = f"""{PRELUDE}
areas = []


def reserve(size):
    areas.append(mmap.mmap(-1, size, prot=0))
    return np.frombuffer(areas[-1], np.uint8).ctypes.data


page = reserve(mmap.PAGESIZE)
far = reserve(2**32)
size = 2**32
while size >= mmap.PAGESIZE:  # take all room on this side of the large area
    if reserve(size) < far:
        size //= 2
areas[0].close()
print(page - far > 2**32, run(ten))
"""

TOO_LARGE = f'''{PRELUDE}
code = compiler.compile_ir("k", """
@zeros = internal global [1073741824 x i8] zeroinitializer
define i64 @k(ptr %block, ptr %frame) {{
  %i = load i64, ptr %block
  %at = getelementptr i8, ptr @zeros, i64 %i
  store volatile i8 1, ptr %at
  ret i64 0
}}""")
used = int(open("/proc/self/statm").read().split()[0]) * mmap.PAGESIZE
resource.setrlimit(resource.RLIMIT_AS, (used + 2**28, resource.RLIM_INFINITY))
try:
    linker.link(code)
except ObjectRefusedError:
    print("refused", run(ten))
'''


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="places and counts memory as Linux does")
@pytest.mark.parametrize(
    ("script", "printed"),
    [
        pytest.param(ROOM_FAR_APART, "True 10\n", id="room-far-apart"),
        pytest.param(TOO_LARGE, "refused 10\n", id="no-room"),
    ],
)
def test_linking_never_ends_the_process(script, printed):
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        check=False,
        text=True,
        cwd=Path(__file__).parents[3],
    )

    assert (done.returncode, done.stdout) == (0, printed), done.stderr
