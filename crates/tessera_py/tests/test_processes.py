"""Threads, processes, the lock of the interpreter, and what an import does."""

import hashlib
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tessera


def digest(seed):
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((2, 200, 200))
    return hashlib.sha256(tessera.matmul(a, b).tobytes()).hexdigest()


@pytest.mark.parametrize("start", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_pools_of_processes(start):
    own = [digest(seed) for seed in range(6)]  # the parent's threads are at work before the fork
    with multiprocessing.get_context(start).Pool(2) as pool:
        assert pool.map_async(digest, range(6)).get(60) == own


def test_a_fork_while_others_multiply():
    done = threading.Event()

    def busy():
        while not done.is_set():
            digest(1)

    threads = [threading.Thread(target=busy) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        own = digest(3)
        for _ in range(5):
            child = os.fork()
            if child == 0:
                os._exit(0 if digest(3) == own else 1)
            end = time.monotonic() + 30
            while True:
                ended, status = os.waitpid(child, os.WNOHANG)
                if ended:
                    break
                if time.monotonic() > end:
                    os.kill(child, signal.SIGKILL)
                    os.waitpid(child, 0)
                    pytest.fail("a child hangs")
                time.sleep(0.01)
            assert status == 0
    finally:
        done.set()
        for thread in threads:
            thread.join()


def test_eight_threads():
    expected = [digest(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(5):
            assert list(pool.map(digest, range(8))) == expected


def test_the_lock_is_released():
    """A second thread counts while a product is computed: with the lock kept it would count nothing."""
    a = np.ones((1500, 1500))
    begun, ended, count = threading.Event(), threading.Event(), 0

    def multiply():
        begun.set()
        for _ in range(3):
            tessera.matmul(a, a, threads=1)
        ended.set()

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-4)
    thread = threading.Thread(target=multiply)
    thread.start()
    begun.wait()
    time.sleep(0.01)
    first = time.monotonic()
    while not ended.is_set():
        count += 1
        time.sleep(0)
    thread.join()
    sys.setswitchinterval(interval)
    assert count > 100, f"{count} turns in {time.monotonic() - first} seconds"


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-W", "error", "-c", code],
        capture_output=True, text=True, env={**os.environ, **environment}, timeout=60,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout, done.stderr


def test_an_import_is_quiet_and_small():
    out, told = run("import tessera, threading; print(threading.active_count(), len(__import__('os').listdir('/proc/self/task')))")
    assert out == "1 1\n", "no thread is started"
    noise = [line for line in told.splitlines() if not line.startswith("import time:")]
    assert noise == []
    imported = {line.split("|")[-1].strip() for line in told.splitlines()}
    assert "tessera._native" in imported and "numpy" not in imported


def test_the_program_for_blas():
    try:
        library = tessera.blas_library()
    except FileNotFoundError:
        pytest.skip("this installation has no libtessera_blas.so")
    code = (
        "import numpy as np; a = np.ones((300, 300)); assert (a @ a == 300).all(); "
        "print('libtessera_blas' in open('/proc/self/maps').read())"
    )
    done = subprocess.run(
        [sys.executable, "-m", "tessera.blas", sys.executable, "-c", code],
        capture_output=True, text=True, timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", ""), done.stderr
    assert os.path.isfile(library)
    done = subprocess.run([sys.executable, "-m", "tessera.blas", "/no/such/program"], capture_output=True, text=True)
    assert done.returncode == 127 and "No such file" in done.stderr
    done = subprocess.run([sys.executable, "-m", "tessera.blas"], capture_output=True, text=True)
    assert done.returncode == 2 and "PROGRAM" in done.stderr
