# HPL by each library in turns: bash turns.sh ROUNDS THREADS NAME=LIBRARY...
rounds=$1 threads=$2; shift 2
export OMP_NUM_THREADS=$threads OPENBLAS_NUM_THREADS=$threads BLIS_NUM_THREADS=$threads
export MKL_NUM_THREADS=$threads TESSERA_NUM_THREADS=$threads MKL_THREADING_LAYER=INTEL
pin=; if [ "$threads" = 1 ]; then export MKL_THREADING_LAYER=SEQUENTIAL; pin="taskset -c 0"; fi
for _ in $(seq "$rounds"); do
  for library in "$@"; do
    rm -f hpccoutf.txt
    LD_PRELOAD=${library#*=} $pin ./hpl_only > /dev/null 2>&1
    echo "$threads threads ${library%%=*}: $(grep WR hpccoutf.txt |
      awk '{printf "NB %s %.2f s %.1f GFLOPS; ", $3, $6, $7}') $(grep -c PASSED hpccoutf.txt) passed"
  done
done
