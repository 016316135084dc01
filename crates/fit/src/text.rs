//! The constants as the library's source.

use std::fmt::Write as _;

use tessera::select::Constants;

/// A number as it is written: five decimals tell more than measurements do, and of nanoseconds one.
fn number(value: f64) -> String {
    let decimals = if value < 10.0 { 1e5 } else { 10.0 };
    let rounded = (value * decimals).round() / decimals;
    format!("{rounded:?}")
}

/// A line of the source's head that names a record.
const RECORD: &str = "//! - ";

/// The records that a source names.
pub(super) fn records(source: &str) -> impl Iterator<Item = &str> {
    source.lines().filter_map(|line| line.strip_prefix(RECORD))
}

/// The source, with the names of the records that the efficiencies were fitted to.
pub(super) fn of(constants: &Constants, records: &[String]) -> String {
    let Constants { reference, launch, next_launch, padded_copy, wave, .. } = constants;
    let Constants { start_steps, parts_rate, memory_rate, others, kernels, .. } = constants;
    let mut out = String::from(
        "//! What was fitted to measured times: written by `cargo xtask fit --write`, not by hand.\n",
    );
    if !records.is_empty() {
        out += "//!\n//! Records of the efficiencies:\n//!\n";
        for record in records {
            writeln!(out, "{RECORD}{record}").expect("invariant: text takes all");
        }
    }
    out.push_str(
        "\nuse std::borrow::Cow;\n\n\
         use super::constants::{Constants, KernelConstants, Reference};\n\n\
         /// Fitted to times of the reference device.\n\
         pub(super) const FITTED: Constants = Constants {\n",
    );
    let mut line = |text: String| {
        writeln!(out, "    {text}").expect("invariant: text takes all");
    };
    let (major, minor) = reference.compute_capability;
    let clock = reference.clock_mhz;
    line(format!(
        "reference: Reference {{ compute_capability: ({major}, {minor}), clock_mhz: {clock} }},"
    ));
    for (name, value) in [
        ("launch", launch),
        ("next_launch", next_launch),
        ("padded_copy", padded_copy),
        ("wave", wave),
        ("start_steps", start_steps),
        ("parts_rate", parts_rate),
        ("memory_rate", memory_rate),
    ] {
        line(format!("{name}: {},", number(*value)));
    }
    let [chain, limbs, tensor] = others.map(number);
    line(format!("others: [{chain}, {limbs}, {tensor}],"));
    line("kernels: Cow::Borrowed(&[".to_owned());
    for own in kernels.iter() {
        let [aligned, ragged] = [own.aligned, own.ragged]
            .map(|of| format!("[{}, {}]", number(of.alone), number(of.full)));
        let (kernel, wave) = (own.kernel, number(own.wave));
        line(format!("    KernelConstants::new(\"{kernel}\", {aligned}, {ragged}, {wave}),"));
    }
    line("]),".to_owned());
    out + "};\n"
}
