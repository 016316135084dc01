//! HPL, the benchmark of large systems, whose residuals are checked.

use std::fs;

use anyhow::Result;

use super::{Outcome, Preload, output_of};

pub(super) const PACKAGES: &[&str] = &["hpcc", "libblas3", "openmpi-bin"];

/// One process, two orders, two sizes of blocks.
const INPUT: &str = "HPLinpack benchmark input file
of the tests of libtessera_blas
HPL.out      output file name (if any)
8            device out (6=stdout,7=stderr,file)
2            # of problems sizes (N)
1000 2000    Ns
2            # of NBs
64 128       NBs
0            PMAP process mapping (0=Row-,1=Column-major)
1            # of process grids (P x Q)
1            Ps
1            Qs
16.0         threshold
1            # of panel fact
2            PFACTs (0=left, 1=Crout, 2=Right)
1            # of recursive stopping criterium
4            NBMINs (>= 1)
1            # of panels in recursion
2            NDIVs
1            # of recursive panel fact.
1            RFACTs (0=left, 1=Crout, 2=Right)
1            # of broadcast
1            BCASTs (0=1rg,1=1rM,2=2rg,3=2rM,4=Lng,5=LnM)
1            # of lookahead depth
1            DEPTHs (>=0)
2            SWAP (0=bin-exch,1=long,2=mix)
64           swapping threshold
0            L1 in (0=transposed,1=no-transposed) form
0            U  in (0=transposed,1=no-transposed) form
1            Equilibration (0=no,1=yes)
8            memory alignment in double (> 0)
";

/// Systems that are solved.
const EXPECTED: usize = 4;

pub(super) fn run(preload: &Preload) -> Result<Outcome> {
    let scratch = tempfile::tempdir()?;
    fs::write(scratch.path().join("hpccinf.txt"), INPUT)?;
    let mut mpi = preload.command("mpirun");
    mpi.args(["--allow-run-as-root", "--oversubscribe", "-np", "1", "hpcc"]);
    mpi.env("OMP_NUM_THREADS", "1");
    let mut text = output_of(&mut mpi, scratch.path())?;
    text.push_str(&fs::read_to_string(scratch.path().join("hpccoutf.txt")).unwrap_or_default());
    // Other benchmarks follow in the same file.
    let residuals = || text.lines().filter(|line| line.contains("||Ax-b||_oo/(eps"));
    let complaints = residuals().filter(|line| !line.contains("PASSED")).map(str::to_owned);
    Ok(Outcome {
        passed: residuals().filter(|line| line.contains("PASSED")).count(),
        expected: EXPECTED,
        complaints: complaints.collect(),
    })
}
