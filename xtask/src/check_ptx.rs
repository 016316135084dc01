//! `cargo xtask check-ptx`: the committed PTX by its shape, then by what the assembler says of it.

use std::fs;

use anyhow::{Context as _, Result, bail};
use cuda_builder::ptxas::{Assembly, EntryUsage, Ptxas};
use gemm_spec::{EntryForm, KernelSpec};
use kernels_gpu::Module;
use ptx_text::PtxModule;

use crate::registers::{self, Registers, Row};
use crate::{modules, shape, toolkit};

/// Check the committed PTX and assemble it
///
/// First the shape: entries and parameters as the registry says, no local memory, call or trap.
/// Then ptxas: no spill, no stack frame, no warning, registers within the specification. ptxas
/// comes from the Python package nvidia-cuda-nvcc in target/ptxas-venv, which is made if need be,
/// or from PATH; a machine that can have neither says SKIPPED.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Write the table of registers into docs/registers.md instead of comparing it
    #[arg(long)]
    pub(crate) write: bool,
    /// Fail where there is no ptxas
    #[arg(long)]
    pub(crate) require: bool,
}

/// Returns what was skipped, and why.
pub(crate) fn run(args: &Args) -> Result<Option<String>> {
    let mut faults = Vec::new();
    let mut entries = 0;
    for module in Module::all() {
        let file = modules::relative(module);
        let text = fs::read_to_string(modules::path(module))
            .with_context(|| format!("reading {file}; run `cargo xtask build-ptx`"))?;
        let parsed = PtxModule::parse(&text).with_context(|| file.clone())?;
        if parsed.target != module.arch.target_cpu() {
            faults.push(format!("{file}: is for {}", parsed.target));
        }
        let kernels: Vec<&KernelSpec> = modules::users(module).collect();
        let here = |symbol: &str| Module::of_entry(module.arch, symbol) == Some(module);
        let found = shape::faults(&parsed, &kernels, modules::common(module), here);
        faults.extend(found.iter().map(|f| format!("{file}: {f}")));
        entries += parsed.entries.len();
    }
    println!("{} modules: shape of {entries} entries checked", Module::all().len());
    refuse(&faults)?;

    let ptxas = match toolkit::ptxas() {
        Ok(ptxas) => ptxas,
        Err(reason) if args.require => bail!("{reason}"),
        Err(reason) => {
            let skipped = format!("assembling the PTX: {reason}");
            println!("SKIPPED: {skipped}");
            return Ok(Some(skipped));
        }
    };
    let mut rows = Vec::new();
    for module in Module::all() {
        assemble(&ptxas, module, &mut rows, &mut faults)?;
    }
    // Helpers stand with the first kernel that launches them.
    let place = |row: &Row| kernels_gpu::KERNELS.iter().position(|spec| spec.id == row.kernel);
    rows.sort_by_key(|row| (row.arch, place(row)));
    let table = registers::table(&rows, ptxas.version());
    print!("\n{table}\n");
    refuse(&faults)?;
    if ptxas.version() != toolkit::RELEASE {
        let (has, wants) = (ptxas.version(), toolkit::RELEASE);
        let reason = format!("the table of registers is that of ptxas {wants}, this one is {has}");
        if args.write || args.require {
            bail!("{reason}; see that python3 and its venv module can install the package");
        }
        println!("SKIPPED: {reason}");
        return Ok(Some(reason));
    }
    if args.write {
        registers::write(&table)?
    } else {
        registers::compare(&table)?
    }
    Ok(None)
}

fn refuse(faults: &[String]) -> Result<()> {
    if faults.is_empty() {
        return Ok(());
    }
    for fault in faults {
        println!("{fault}");
    }
    bail!("{} faults in the PTX; mend the kernels and run `cargo xtask build-ptx`", faults.len())
}

fn assemble(
    ptxas: &Ptxas,
    module: Module,
    rows: &mut Vec<Row>,
    faults: &mut Vec<String>,
) -> Result<()> {
    let (arch, file) = (module.arch, modules::relative(module));
    let targets = targets(&ptxas.archs_for(arch.target_cpu()));
    if targets.is_empty() {
        bail!("ptxas {} cannot assemble {file}", ptxas.version());
    }
    println!("{file}: assembled by ptxas {} for {}", ptxas.version(), targets.join(" and "));
    let mut assemblies = Vec::new();
    for target in targets {
        let assembly = ptxas.assemble(&modules::path(module), target)?;
        for warning in &assembly.warnings {
            faults.push(format!("{file} for {target}: {warning}"));
        }
        assemblies.push((target, assembly));
    }
    let own = modules::users(module).flat_map(|spec| spec.forms().map(|form| (spec.id, form)));
    let common = modules::common(module).into_iter().map(|form| (module.name, form));
    for (kernel, form) in own.chain(common) {
        if Module::of_entry(arch, form.symbol) != Some(module) {
            continue;
        }
        // A helper that several kernels share has one row.
        if rows.iter().any(|row| row.entry == form.symbol) {
            continue;
        }
        let mut registers = Vec::new();
        for (target, assembly) in &assemblies {
            match usage(assembly, &form) {
                Some(usage) => {
                    let excess = excesses(usage, &form);
                    faults.extend(excess.iter().map(|f| format!("{file} for {target}: {f}")));
                    registers.push(Registers {
                        arch: (*target).to_owned(),
                        count: usage.registers,
                        limited: !usage.min_blocks_ignored,
                    });
                }
                None => faults.push(format!(
                    "{file} for {target}: the assembler does not speak of {}",
                    form.symbol
                )),
            }
        }
        rows.push(Row {
            kernel,
            entry: form.symbol,
            arch: arch.target_cpu(),
            registers,
            limit: form.max_registers(),
            shared_bytes: form.shared_bytes,
        });
    }
    Ok(())
}

/// The least arch that the module can be assembled for, and Hopper beside it.
fn targets<'a>(able: &[&'a str]) -> Vec<&'a str> {
    let mut targets: Vec<&str> = able.first().copied().into_iter().collect();
    targets.extend(able.iter().copied().find(|&arch| arch == "sm_90"));
    targets.dedup();
    targets
}

fn usage<'a>(assembly: &'a Assembly, form: &EntryForm) -> Option<&'a EntryUsage> {
    assembly.entries.iter().find(|usage| usage.name == form.symbol)
}

/// Where an entry takes more than it may. The limit on registers follows from the blocks that share a
/// SM; where these do not fit at all, there is none.
fn excesses(usage: &EntryUsage, form: &EntryForm) -> Vec<String> {
    let name = &usage.name;
    let mut faults = Vec::new();
    let mut none_of = |bytes: u32, what: &str| {
        if bytes > 0 {
            faults.push(format!("{name}: {bytes} bytes of {what}"));
        }
    };
    none_of(usage.stack_bytes, "stack");
    none_of(usage.spill_store_bytes, "spill stores");
    none_of(usage.spill_load_bytes, "spill loads");
    none_of(usage.shared_bytes, "static shared memory, where the launch gives all of it");
    let limit = form.max_registers();
    if usage.registers > limit && !usage.min_blocks_ignored {
        let has = usage.registers;
        faults.push(format!("{name}: {has} registers, the specification allows {limit}"));
    }
    faults
}

#[cfg(test)]
mod tests {
    use gemm_spec::{Arch, Entry, LaunchShape, Types};

    use super::*;

    const SPEC: KernelSpec = KernelSpec {
        id: "k",
        about: "",
        origin: "",
        arch: Arch::Sm70,
        entries: &[Entry { types: Types::F32, symbol: "k_f32" }],
        launch: LaunchShape::SingleBlock,
        shared_elements: 0,
        min_blocks_per_sm: gemm_spec::MinBlocks::same(1),
        ..KernelSpec::PLAIN
    };

    fn form() -> EntryForm {
        SPEC.forms().next().unwrap()
    }

    #[test]
    fn every_excess_is_a_fault() {
        let good = EntryUsage { name: "k_f32".into(), registers: 64, ..EntryUsage::default() };
        assert_eq!(excesses(&good, &form()), Vec::<String>::new());
        for bad in [
            EntryUsage { registers: 65, ..good.clone() },
            EntryUsage { stack_bytes: 8, ..good.clone() },
            EntryUsage { spill_store_bytes: 4, ..good.clone() },
            EntryUsage { spill_load_bytes: 4, ..good.clone() },
            EntryUsage { shared_bytes: 128, ..good.clone() },
        ] {
            assert_eq!(excesses(&bad, &form()).len(), 1, "{bad:?}");
        }
        let unlimited = EntryUsage { registers: 65, min_blocks_ignored: true, ..good };
        assert_eq!(excesses(&unlimited, &form()), Vec::<String>::new());
    }

    #[test]
    fn modules_are_assembled_for_the_least_gpu_and_for_hopper() {
        assert_eq!(targets(&["sm_75", "sm_80", "sm_90", "sm_100"]), ["sm_75", "sm_90"]);
        assert_eq!(targets(&["sm_90", "sm_100"]), ["sm_90"]);
        assert_eq!(targets(&["sm_90a"]), ["sm_90a"]);
        assert!(targets(&[]).is_empty());
    }
}
