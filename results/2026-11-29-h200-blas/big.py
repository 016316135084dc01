import numpy as np, time
n = 8192
a, b = np.random.rand(n, n), np.random.rand(n, n)
a[:512, :512] @ b[:512, :512]
for i in range(3):
    t = time.perf_counter(); c = a @ b; print("%.0f GFLOP/s" % (2 * n**3 / (time.perf_counter() - t) / 1e9))
x = np.random.rand(n)
print(abs(c @ x - a @ (b @ x)).max() / abs(c).max())
