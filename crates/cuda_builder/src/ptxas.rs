//! The assembler, what its log says of each entry, and the program beside it that packs machine code.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{BuildError, command};

/// A `ptxas` program.
#[derive(Clone, Debug)]
pub struct Ptxas {
    program: PathBuf,
    version: String,
    build: String,
    archs: Vec<String>,
}

/// What the assembler made of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assembly {
    /// One for each entry, in the order of the log.
    pub entries: Vec<EntryUsage>,
    /// Advice and warnings, C75xx among them; none is wanted. Those that
    /// [`EntryUsage::min_blocks_ignored`] tells are not repeated here.
    pub warnings: Vec<String>,
}

/// What one entry takes from the SM.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryUsage {
    /// The entry.
    pub name: String,
    /// The arch that it was assembled for.
    pub arch: String,
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of a thread's stack, of the functions that it calls too.
    pub stack_bytes: u32,
    /// Bytes that are stored for want of registers.
    pub spill_store_bytes: u32,
    /// Bytes that are loaded for want of registers.
    pub spill_load_bytes: u32,
    /// Bytes of shared memory that the module itself declares; what a launch adds is not known
    /// here.
    pub shared_bytes: u32,
    /// `.minnctapersm` asks for more threads than an SM of this arch holds, so nothing
    /// bounds the registers.
    pub min_blocks_ignored: bool,
}

impl Ptxas {
    /// Asks a program who it is and for which archs it assembles.
    ///
    /// # Errors
    /// [`BuildError::Spawn`] or [`BuildError::Command`] where it is no `ptxas` or does not run.
    pub fn new(program: impl Into<PathBuf>) -> Result<Self, BuildError> {
        let program = program.into();
        let version = command::output(Command::new(&program).arg("--version"))?;
        let help = command::output(Command::new(&program).arg("--help"))?;
        let (build, version) = (build(&version), release(&version));
        Ok(Self { version, build, archs: archs(&help), program })
    }

    /// Its release, as `13.0`.
    #[must_use]
    pub fn version(&self) -> &str {
        &self.version
    }

    /// Its release and the number of its build, as `13.0.88`.
    #[must_use]
    pub fn build(&self) -> &str {
        &self.build
    }

    /// The archs that a module for `target` can be assembled for, in the order of their numbers.
    #[must_use]
    pub fn archs_for(&self, target: &str) -> Vec<&str> {
        able_to_run(&self.archs, target)
    }

    /// Assembles a module for an arch; the machine code is thrown away.
    ///
    /// # Errors
    /// [`BuildError::Command`] with the assembler's words where it refuses the module.
    pub fn assemble(&self, module: &Path, arch: &str) -> Result<Assembly, BuildError> {
        let scratch = tempfile::tempdir()
            .map_err(BuildError::io("creating a folder in", &std::env::temp_dir()))?;
        self.assemble_to(module, arch, &scratch.path().join("module.cubin"))
    }

    /// Assembles a module for an arch into a file.
    ///
    /// # Errors
    /// As [`Self::assemble`].
    pub fn assemble_to(
        &self,
        module: &Path,
        arch: &str,
        cubin: &Path,
    ) -> Result<Assembly, BuildError> {
        let mut ptxas = Command::new(&self.program);
        ptxas.args(["-v", "-arch", arch]).arg(module).arg("-o").arg(cubin);
        Ok(Assembly::parse(&logged(&mut ptxas)?))
    }

    /// Assembles a module for each of the archs and packs the machine code, compressed, into one fat
    /// binary, with the program `fatbinary` that is beside this one. The driver takes out of it what its
    /// GPU runs.
    ///
    /// # Errors
    /// As [`Self::assemble`], and [`BuildError::Spawn`] where there is no `fatbinary`.
    pub fn fat_binary(&self, module: &Path, archs: &[&str]) -> Result<Vec<u8>, BuildError> {
        let scratch = tempfile::tempdir()
            .map_err(BuildError::io("creating a folder in", &std::env::temp_dir()))?;
        let image = scratch.path().join("module.fatbin");
        let mut pack = Command::new(self.program.with_file_name("fatbinary"));
        pack.args(["-64", "--compress-all", "--compress-mode=size", "--create"]).arg(&image);
        for arch in archs {
            let cubin = scratch.path().join(format!("{arch}.cubin"));
            self.assemble_to(module, arch, &cubin)?;
            let number = arch.trim_start_matches("sm_");
            pack.arg(format!("--image3=kind=elf,sm={number},file={}", cubin.display()));
        }
        logged(&mut pack)?;
        fs::read(&image).map_err(BuildError::io("reading", &image))
    }
}

/// Runs a program, whose failure is told with all that it printed; gives what it printed otherwise.
fn logged(command: &mut Command) -> Result<String, BuildError> {
    let line = command::line(command);
    let output =
        command.output().map_err(|source| BuildError::Spawn { line: line.clone(), source })?;
    let mut log = String::from_utf8_lossy(&output.stdout).into_owned();
    log.push_str(&String::from_utf8_lossy(&output.stderr));
    if output.status.success() {
        Ok(log)
    } else {
        Err(BuildError::Command { line, status: output.status.to_string(), output: log })
    }
}

impl Assembly {
    /// Reads the log of `ptxas -v`.
    #[must_use]
    pub fn parse(log: &str) -> Self {
        let mut assembly = Self::default();
        // Whose properties the next lines tell: an entry's, or those of a function that it calls.
        let mut within_entry = false;
        // The log warns of these before it comes to the entries.
        let mut without_min_blocks = Vec::new();
        for line in log.lines() {
            let line = line.trim();
            let text = line.split_once(": ").map_or(line, |(_, text)| text.trim());
            if let Some(rest) = text.strip_prefix("Compiling entry function ") {
                let mut quoted = rest.split('\'').skip(1).step_by(2);
                assembly.entries.push(EntryUsage {
                    name: quoted.next().unwrap_or_default().to_owned(),
                    arch: quoted.next().unwrap_or_default().to_owned(),
                    ..EntryUsage::default()
                });
            } else if let Some(name) = text.strip_prefix("Function properties for ") {
                within_entry =
                    assembly.entries.last().is_some_and(|entry| entry.name == name.trim());
            } else if let Some(name) = min_blocks_ignored(text) {
                without_min_blocks.push(name);
            } else if is_warning(line) {
                assembly.warnings.push(line.to_owned());
            } else if let Some(entry) = assembly.entries.last_mut() {
                entry.read(text, within_entry);
            }
        }
        for entry in &mut assembly.entries {
            entry.min_blocks_ignored = without_min_blocks.contains(&entry.name.as_str());
        }
        assembly
    }
}

impl EntryUsage {
    /// Reads `0 bytes stack frame, 0 bytes spill stores` or `Used 64 registers, 128 bytes smem`.
    fn read(&mut self, text: &str, own: bool) {
        for item in text.split(',') {
            let item = item.trim().trim_start_matches("Used ");
            let Some((number, what)) = item.split_once(' ') else { continue };
            let Ok(number) = number.parse::<u32>() else { continue };
            match what {
                "registers" => self.registers = number,
                "bytes stack frame" if own => self.stack_bytes = self.stack_bytes.max(number),
                "bytes cumulative stack size" => self.stack_bytes = self.stack_bytes.max(number),
                // A called function's spills are the entry's too.
                "bytes spill stores" => self.spill_store_bytes += number,
                "bytes spill loads" => self.spill_load_bytes += number,
                "bytes smem" => self.shared_bytes = number,
                _ => {}
            }
        }
    }
}

/// The entry in `Value of threads per SM for entry … is out of range. .minnctapersm will be ignored`.
fn min_blocks_ignored(text: &str) -> Option<&str> {
    let rest = text.strip_prefix("Value of threads per SM for entry ")?;
    let (name, rest) = rest.split_once(' ')?;
    rest.contains(".minnctapersm will be ignored").then_some(name)
}

/// Warnings say so; potential losses of performance come as information with a code C75xx.
fn is_warning(line: &str) -> bool {
    let lower = line.to_ascii_lowercase();
    let (kind, _) = lower.split_once(':').unwrap_or((&lower, ""));
    kind.contains("warning") || lower.contains("(c75") || lower.contains("performance loss")
}

/// `13.0` out of `Cuda compilation tools, release 13.0, V13.0.88`.
fn release(version: &str) -> String {
    let behind = version.split_once("release ").map_or("", |(_, behind)| behind);
    behind.split(',').next().unwrap_or_default().trim().to_owned()
}

/// `13.0.88` out of the same.
fn build(version: &str) -> String {
    let behind = version.split_once(", V").map_or("", |(_, behind)| behind);
    behind.split_whitespace().next().unwrap_or_default().to_owned()
}

/// The real archs, `sm_…`, that the help text allows.
fn archs(help: &str) -> Vec<String> {
    let mut archs: Vec<String> = help
        .split('\'')
        .filter(|word| word.starts_with("sm_") && number(word).is_some())
        .map(str::to_owned)
        .collect();
    archs.sort_by_key(|arch| (number(arch), arch.len()));
    archs.dedup();
    archs
}

/// A module runs on its own arch and later ones; one with an `a` on its own alone; and one with an
/// `f` is left to the assembler.
fn able_to_run<'a>(archs: &'a [String], target: &str) -> Vec<&'a str> {
    let later = |arch: &str| number(arch) >= number(target) && !arch.ends_with(['a', 'f']);
    archs
        .iter()
        .map(String::as_str)
        .filter(|&arch| arch == target || !target.ends_with(['a', 'f']) && later(arch))
        .collect()
}

fn number(arch: &str) -> Option<u32> {
    arch.strip_prefix("sm_")?.trim_end_matches(['a', 'f']).parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// ptxas 13.0, a module with a function that one entry calls.
    const CLEAN: &str = "\
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'scale_f32' for 'sm_75'
ptxas info    : Function properties for scale_f32
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 368 bytes cmem[0]
ptxas info    : Compile time = 4.465 ms
ptxas info    : Function properties for helper
    16 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Compiling entry function 'add_f64' for 'sm_75'
ptxas info    : Function properties for add_f64
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 64 registers, used 1 barriers, 8192 bytes smem, 376 bytes cmem[0]
ptxas info    : Compile time = 8.314 ms
";

    /// ptxas 13.0, a kernel with an array in local memory, and other releases' warnings.
    const POOR: &str = "\
ptxas warning : For profile sm_90 adjusting per thread register count of 16 to lower bound of 24
ptxas info    : Overriding maximum register limit 256 for 'spill' with  24 of maxrregcount option
ptxas info    : 0 bytes gmem
ptxas info    : Compiling entry function 'spill' for 'sm_90'
ptxas info    : Function properties for spill
    64 bytes stack frame, 12 bytes spill stores, 8 bytes spill loads
ptxas info    : Used 10 registers, used 0 barriers, 64 bytes cumulative stack size, 128 bytes smem
ptxas info    : (C7510) Potential Performance Loss: wgmma.mma_async instructions are serialized due to insufficient register resources for the wgmma pipeline in function 'spill'
ptxas module.ptx, line 7; warning : Feature is deprecated
";

    #[test]
    fn each_entry_has_its_own_figures() {
        let assembly = Assembly::parse(CLEAN);
        assert!(assembly.warnings.is_empty());
        let [scale, add] = &assembly.entries[..] else { panic!("two entries") };
        assert_eq!((scale.name.as_str(), scale.arch.as_str()), ("scale_f32", "sm_75"));
        assert_eq!((scale.registers, scale.stack_bytes, scale.shared_bytes), (10, 0, 0));
        assert_eq!((add.registers, add.shared_bytes), (64, 8192));
    }

    #[test]
    fn spills_stacks_and_warnings_are_seen() {
        let assembly = Assembly::parse(POOR);
        let [spill] = &assembly.entries[..] else { panic!("one entry") };
        assert_eq!((spill.stack_bytes, spill.shared_bytes), (64, 128));
        assert_eq!((spill.spill_store_bytes, spill.spill_load_bytes), (12, 8));
        assert_eq!(assembly.warnings.len(), 3, "{:#?}", assembly.warnings);
    }

    #[test]
    fn an_entry_without_its_bound_is_told_apart() {
        let log = format!(
            "ptxas warning : Value of threads per SM for entry scale_f32 is out of range. \
             .minnctapersm will be ignored\n{CLEAN}"
        );
        let assembly = Assembly::parse(&log);
        let ignored: Vec<bool> = assembly.entries.iter().map(|e| e.min_blocks_ignored).collect();
        assert_eq!(ignored, [true, false]);
        assert!(assembly.warnings.is_empty());
    }

    #[test]
    fn archs_are_read_from_the_help_text() {
        let help = "Allowed values for this option:  'compute_100','lto_75','sm_100',
        'sm_100a','sm_100f','sm_75','sm_80','sm_90','sm_90a'.
        Default value:  'sm_75'.";
        let archs = archs(help);
        assert_eq!(archs.len(), 7);
        assert_eq!(able_to_run(&archs, "sm_70"), ["sm_75", "sm_80", "sm_90", "sm_100"]);
        assert_eq!(able_to_run(&archs, "sm_90"), ["sm_90", "sm_100"]);
        assert_eq!(able_to_run(&archs, "sm_90a"), ["sm_90a"]);
        assert!(able_to_run(&archs, "sm_120").is_empty());
    }

    #[test]
    fn the_release_is_read() {
        let text = "Copyright\nCuda compilation tools, release 13.0, V13.0.88\nBuild\n";
        assert_eq!(release(text), "13.0");
        assert_eq!(build(text), "13.0.88");
        assert_eq!((release(""), build("")), (String::new(), String::new()));
    }
}
