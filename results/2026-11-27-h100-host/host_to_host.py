"""Times of float32 products from host memory to host memory: tessera.matmul and PyTorch, pageable and pinned, in turns.

PyTorch: both factors copied to the GPU, torch.matmul, the result copied to an array that is there already; of pinned
memory the copies are asynchronous and there is one wait at the end.
"""
import statistics, sys, time
import numpy as np, torch, tessera

torch.backends.cuda.matmul.allow_tf32 = False
print(torch.__version__, torch.cuda.get_device_name(), "tessera", tessera.__version__)
print("n | memory | tessera ms | torch ms | tessera/torch | threads 16 cpu of tessera ms")
for n in map(int, sys.argv[1:] or (256, 512, 768, 1024, 1536, 2048, 3000, 4096, 6000, 8192, 10240)):
    for pinned in (False, True):
        make = lambda: torch.rand(n, n, pin_memory=pinned) if pinned else torch.rand(n, n)
        a, b, out, own = make(), make(), make(), make()
        na, nb, nown = a.numpy(), b.numpy(), own.numpy()
        def by_torch():
            c = torch.matmul(a.cuda(non_blocking=True), b.cuda(non_blocking=True))
            out.copy_(c, non_blocking=True)
            torch.cuda.synchronize()
        def by_tessera():
            tessera.matmul(na, nb, out=nown, device="cuda")
        rounds = 25 if n <= 2048 else 9 if n <= 6000 else 5
        times = ([], [])
        for turn in range(rounds + 2):
            for which, call in enumerate((by_tessera, by_torch)):
                start = time.perf_counter()
                call()
                taken = (time.perf_counter() - start) * 1e3
                if turn > 1:
                    times[which].append(taken)
        assert torch.allclose(out, own, rtol=1e-3, atol=1e-2 * n ** 0.5), n
        cpu = []
        if n <= 2048 and not pinned:
            for turn in range(9):
                start = time.perf_counter()
                tessera.matmul(na, nb, out=nown, device="cpu")
                cpu.append((time.perf_counter() - start) * 1e3)
        mine, theirs = map(statistics.median, times)
        print(f"{n} | {'pinned' if pinned else 'pageable'} | {mine:.3f} | {theirs:.3f} | {mine / theirs:.2f} | "
              f"{statistics.median(cpu) if cpu else float('nan'):.3f}", flush=True)
