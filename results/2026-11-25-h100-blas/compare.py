import math, sys
def load(f): return [(' '.join(l.split()[:4]), float(l.split()[4])) for l in open(f)]
cpu, gpu, auto = (load(f) for f in sys.argv[1:4])
logs, worst = 0, []
for (name, c), (_, g), (_, a) in zip(cpu, gpu, auto):
    r = a / min(c, g); logs += math.log(r); worst.append(r)
    print(f'{name}: cpu {c:.0f} us, cuda:0 {g:.0f}, auto {a:.0f}, {r:.2f} of the better')
print('geometric mean %.3f, worst %.2f, above 1.1: %d of %d' % (math.exp(logs / len(worst)), max(worst), sum(r > 1.1 for r in worst), len(worst)))
