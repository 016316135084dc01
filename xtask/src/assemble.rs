//! `cargo xtask assemble`: the committed PTX to machine code, so that the driver need not compile it.

use std::fs;
use std::num::NonZeroUsize;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use anyhow::{Context as _, Result, bail};
use cuda_builder::ptxas::Ptxas;
use cuda_builder::{body, digest, write_whole};
use gemm_spec::Arch;
use kernels_gpu::Module;

use crate::{modules, toolkit};

/// Assemble the committed PTX into the fat binaries beside it
///
/// Each fat binary has machine code for the GPUs that are common today; the driver compiles the PTX
/// for all others. Modules whose machine code is that of their PTX already are left as they are.
/// ptxas comes from the Python package nvidia-cuda-nvcc in target/ptxas-venv, which is made if need
/// be, or from PATH. Where there is none, modules whose PTX has changed lose their machine code.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write nothing: fail unless the machine code is that of the committed PTX. Digests say so on any
    /// machine; where the release of ptxas that made it is available, it is made again and compared, but
    /// for what that gives other bytes of each time
    #[arg(long)]
    check: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.check { check(false).map(drop) } else { refresh() }
}

/// The GPUs that PTX of an arch is assembled for. One with no machine code of its own runs that of the
/// nearest before it whose major number is the same: 12.1 that of sm_120.
fn targets(arch: Arch) -> &'static [&'static str] {
    match arch {
        // The assembler of CUDA 13 knows no Volta.
        Arch::Sm70 | Arch::Sm80 => &["sm_80", "sm_86", "sm_89", "sm_90", "sm_120"],
        Arch::Sm90a => &["sm_90a"],
    }
}

/// What the list of modules says of a module's machine code.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Record {
    archs: Vec<String>,
    ptx_sha256: String,
    image_sha256: String,
    ptxas: String,
}

impl Record {
    /// What this program was compiled with, which is what is committed.
    fn committed(module: Module) -> Option<Self> {
        module.assembled().map(|assembled| Self {
            archs: assembled.archs.iter().map(|&arch| arch.to_owned()).collect(),
            ptx_sha256: assembled.ptx_sha256.to_owned(),
            image_sha256: assembled.image_sha256.to_owned(),
            ptxas: assembled.ptxas.to_owned(),
        })
    }

    fn of(image: &[u8], ptx_sha256: String, archs: &[&str], ptxas: &Ptxas) -> Self {
        Self {
            archs: archs.iter().map(|&arch| arch.to_owned()).collect(),
            ptx_sha256,
            image_sha256: digest::of_bytes(image),
            ptxas: ptxas.build().to_owned(),
        }
    }
}

/// The digest of a module's committed PTX.
fn ptx_digest(module: Module) -> Result<String> {
    let file = modules::relative(module);
    let text = fs::read_to_string(modules::path(module))
        .with_context(|| format!("reading {file}; run `cargo xtask build-ptx`"))?;
    Ok(digest::of_bytes(body(&text).as_bytes()))
}

/// What is wrong with a module's machine code, beside its PTX of that digest.
fn fault(
    record: Option<&Record>,
    ptx: &str,
    targets: &[&str],
    image: Option<&[u8]>,
) -> Option<String> {
    let Some(record) = record else { return Some("there is none".to_owned()) };
    if record.ptx_sha256 != ptx {
        return Some("it was made from other PTX".to_owned());
    }
    if record.archs != targets {
        return Some(format!("it is for {}", record.archs.join(", ")));
    }
    match image {
        None => Some("its file is missing".to_owned()),
        Some(image) if digest::of_bytes(image) != record.image_sha256 => {
            Some("its file is not the one that was made".to_owned())
        }
        Some(_) => None,
    }
}

/// What is wrong with the committed machine code of a module.
fn committed_fault(module: Module) -> Result<Option<String>> {
    let image = fs::read(modules::root().join(modules::relative_image(module))).ok();
    let record = Record::committed(module);
    let ptx = ptx_digest(module)?;
    Ok(fault(record.as_ref(), &ptx, targets(module.arch), image.as_deref()))
}

/// Fails where machine code is not that of the PTX beside it, by their digests.
pub(crate) fn check_record() -> Result<()> {
    let mut faults = 0;
    for module in Module::all() {
        if let Some(fault) = committed_fault(module)? {
            println!("{}: {fault}", modules::relative_image(module));
            faults += 1;
        }
    }
    if faults > 0 {
        bail!("modules whose machine code is not that of their PTX: {faults}; {REMEDY}");
    }
    println!("{} modules: the machine code is that of the committed PTX", Module::all().len());
    Ok(())
}

const REMEDY: &str = "run `cargo xtask assemble` on a machine that has ptxas or can install it, and commit the files";

/// Checks the digests, then makes the machine code again and compares. Returns what was skipped, and why.
pub(crate) fn check(require: bool) -> Result<Option<String>> {
    check_record()?;
    let ptxas = match ptxas() {
        Ok(ptxas) => ptxas,
        Err(reason) if require => bail!("{reason}"),
        Err(reason) => {
            let skipped = format!("assembling the PTX again: {reason}");
            println!("SKIPPED: {skipped}");
            return Ok(Some(skipped));
        }
    };
    let made = |module: &Module| {
        module.assembled().is_some_and(|assembled| assembled.ptxas == ptxas.build())
    };
    let (again, others): (Vec<Module>, Vec<Module>) = Module::all().partition(made);
    let images = assemble(&ptxas, &again)?;
    let (mut same, mut stale) = (0, Vec::new());
    for (&module, image) in again.iter().zip(&images) {
        let file = modules::relative_image(module);
        let committed = module.assembled().map_or(&[][..], |assembled| assembled.image);
        let once_more = || Ok(ptxas.fat_binary(&modules::path(module), targets(module.arch))?);
        match compared(committed, image, once_more)? {
            Compared::Same => same += 1,
            Compared::Varies => println!("{file}: ptxas gives other bytes each time"),
            Compared::Stale => stale.push(file),
        }
    }
    if !stale.is_empty() {
        bail!("{} not what ptxas {} gives; {REMEDY}", stale.join(", "), ptxas.build());
    }
    println!("{same} modules: ptxas {} gives the same bytes again", ptxas.build());
    if others.is_empty() {
        return Ok(None);
    }
    let reason = format!(
        "assembling {} modules again: they were not assembled by ptxas {}",
        others.len(),
        ptxas.build()
    );
    println!("SKIPPED: {reason}");
    Ok(Some(reason))
}

/// What assembling a module again says of its machine code.
#[derive(Debug, PartialEq, Eq)]
enum Compared {
    /// It is the same.
    Same,
    /// The assembler's result varies, so nothing can be said. That of CUDA 13.0 does for some kernels of
    /// wgmma, by the addresses at which the system puts its memory.
    Varies,
    /// It is another, which the assembler gives each time.
    Stale,
}

/// Most times that a module is assembled to see whether the result varies: one that does has given the
/// same bytes twice in a row, and eight times in a row is not to be expected.
const TIMES: usize = 8;

fn compared(
    committed: &[u8],
    again: &[u8],
    mut once_more: impl FnMut() -> Result<Vec<u8>>,
) -> Result<Compared> {
    if again == committed {
        return Ok(Compared::Same);
    }
    for _ in 1..TIMES {
        if once_more()? != again {
            return Ok(Compared::Varies);
        }
    }
    Ok(Compared::Stale)
}

/// Assembles the modules whose machine code is not that of their PTX, and writes the list of modules.
/// Where there is no ptxas such modules have no machine code: the driver compiles their PTX.
pub(crate) fn refresh() -> Result<()> {
    let mut stale = Vec::new();
    for module in Module::all() {
        if committed_fault(module)?.is_some() {
            stale.push(module);
        }
    }
    let mut records: Vec<Option<Record>> = Module::all().map(Record::committed).collect();
    if !stale.is_empty() {
        let fresh = match ptxas() {
            Ok(ptxas) => renew(&ptxas, &stale)?,
            Err(reason) => without_assembler(&stale, &reason)?,
        };
        for (module, record) in stale.iter().zip(fresh) {
            let at = Module::all().position(|of| of == *module);
            records[at.context("a module of no registry")?] = record;
        }
    }
    let list = list(Module::all().zip(&records));
    let path = modules::root().join(modules::LIST);
    // A file that is written anew has everything compiled anew that includes it.
    if fs::read(&path).ok().as_deref() != Some(list.as_bytes()) {
        write_whole(&path, list.as_bytes())?;
    }
    let bytes: u64 = Module::all().map(size).sum();
    let assembled = records.iter().flatten().count();
    println!("{assembled} of {} modules have machine code, {bytes} bytes", records.len());
    Ok(())
}

fn size(module: Module) -> u64 {
    let path = modules::root().join(modules::relative_image(module));
    fs::metadata(path).map_or(0, |file| file.len())
}

/// Takes the machine code of other PTX away, so that nothing can load it.
fn without_assembler(stale: &[Module], reason: &str) -> Result<Vec<Option<Record>>> {
    println!("{reason}");
    for &module in stale {
        let file = modules::relative_image(module);
        let path = modules::root().join(&file);
        if path.exists() {
            fs::remove_file(&path).with_context(|| format!("removing {file}"))?;
        }
        println!("{file}: none for now, so GPUs compile the PTX at first use");
    }
    println!("before a commit {REMEDY}");
    Ok(vec![None; stale.len()])
}

/// Assembles modules into their files.
fn renew(ptxas: &Ptxas, stale: &[Module]) -> Result<Vec<Option<Record>>> {
    let images = assemble(ptxas, stale)?;
    let mut records = Vec::new();
    for (&module, image) in stale.iter().zip(&images) {
        let file = modules::relative_image(module);
        write_whole(&modules::root().join(&file), image)?;
        println!("{file}: {} bytes for {}", image.len(), targets(module.arch).join(", "));
        records.push(Some(Record::of(image, ptx_digest(module)?, targets(module.arch), ptxas)));
    }
    Ok(records)
}

/// The fat binaries of modules, made on as many threads as there are cores.
fn assemble(ptxas: &Ptxas, modules: &[Module]) -> Result<Vec<Vec<u8>>> {
    let next = AtomicUsize::new(0);
    let done = Mutex::new(Vec::new());
    let work = || {
        while let Some(&module) = modules.get(next.fetch_add(1, Ordering::Relaxed)) {
            let image = ptxas.fat_binary(&modules::path(module), targets(module.arch));
            done.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push((module, image));
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, NonZeroUsize::get) {
            scope.spawn(work);
        }
    });
    let mut done = done.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner());
    done.sort_by_key(|(module, _)| modules.iter().position(|of| of == module));
    done.into_iter().map(|(_, image)| Ok(image?)).collect()
}

/// The assembler of the release that machine code is made with. The error says in a line why there is
/// none.
fn ptxas() -> Result<Ptxas, String> {
    let ptxas = toolkit::ptxas()?;
    if ptxas.version() == toolkit::RELEASE {
        return Ok(ptxas);
    }
    let (has, wants) = (ptxas.version(), toolkit::RELEASE);
    Err(format!("machine code is made by ptxas {wants}, this one is {has}"))
}

/// The list of modules as the host compiles it in.
fn list<'a>(modules: impl Iterator<Item = (Module, &'a Option<Record>)>) -> String {
    let mut text = "// generated by `cargo xtask build-ptx`, do not edit\n&[\n".to_owned();
    for (module, record) in modules {
        let Module { arch, name } = module;
        let place = module.place();
        text +=
            &format!("    Files {{\n        arch: Arch::{arch:?},\n        name: \"{name}\",\n");
        text += &format!("        ptx: include_str!(\"{place}.ptx\"),\n");
        text += &match record {
            None => "        assembled: None,\n".to_owned(),
            Some(Record { archs, ptx_sha256, image_sha256, ptxas }) => format!(
                "        assembled: Some(Assembled {{\n            \
                 image: image!(\"{place}.fatbin\"),\n            \
                 archs: &{archs:?},\n            \
                 ptx_sha256: \"{ptx_sha256}\",\n            \
                 image_sha256: \"{image_sha256}\",\n            \
                 ptxas: \"{ptxas}\",\n        }}),\n"
            ),
        };
        text += "    },\n";
    }
    text + "]\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Needs no assembler, so no commit can bring stale machine code.
    #[test]
    fn the_committed_machine_code_is_made_from_the_ptx_beside_it() {
        for module in Module::all() {
            let fault = committed_fault(module).unwrap();
            assert_eq!(fault, None, "{}: {REMEDY}", modules::relative_image(module));
        }
    }

    #[test]
    fn the_committed_list_is_what_would_be_written() {
        let records: Vec<_> = Module::all().map(Record::committed).collect();
        let text = fs::read_to_string(modules::root().join(modules::LIST)).unwrap();
        assert!(
            text == list(Module::all().zip(&records)),
            "{} is not the one that would be written; run `cargo xtask assemble`",
            modules::LIST
        );
    }

    #[test]
    fn every_gpu_of_the_list_runs_what_is_assembled_for_it() {
        for module in Module::all() {
            let assembled = module.assembled().unwrap();
            for cc in [(8, 0), (8, 6), (8, 9), (9, 0), (12, 0), (12, 1)] {
                assert_eq!(assembled.runs_on(cc), module.arch.runs_on(cc), "{module:?} on {cc:?}");
            }
        }
    }

    #[test]
    fn machine_code_of_another_assembler_is_told_from_one_that_varies() {
        let once_more = |byte| move || Ok(vec![byte]);
        assert_eq!(compared(b"a", b"a", || bail!("not needed")).unwrap(), Compared::Same);
        assert_eq!(compared(b"a", b"b", once_more(b'c')).unwrap(), Compared::Varies);
        assert_eq!(compared(b"a", b"b", once_more(b'a')).unwrap(), Compared::Varies);
        assert_eq!(compared(b"a", b"b", once_more(b'b')).unwrap(), Compared::Stale);
        assert!(compared(b"a", b"b", || bail!("the assembler fails")).is_err());
    }

    #[test]
    fn stale_machine_code_is_told() {
        let record = Record {
            archs: vec!["sm_80".to_owned()],
            ptx_sha256: "p".to_owned(),
            image_sha256: digest::of_bytes(b"code"),
            ptxas: "13.0.88".to_owned(),
        };
        let told = |record: Option<&Record>, ptx, archs: &[&str], image: Option<&[u8]>| {
            fault(record, ptx, archs, image).unwrap_or_default()
        };
        let (good, archs) = (Some(&record), &["sm_80"][..]);
        assert_eq!(told(good, "p", archs, Some(b"code")), "");
        assert_eq!(told(None, "p", archs, Some(b"code")), "there is none");
        assert_eq!(told(good, "q", archs, Some(b"code")), "it was made from other PTX");
        assert_eq!(told(good, "p", &["sm_80", "sm_90"], Some(b"code")), "it is for sm_80");
        assert_eq!(told(good, "p", archs, None), "its file is missing");
        assert_eq!(told(good, "p", archs, Some(b"cod")), "its file is not the one that was made");
    }
}
