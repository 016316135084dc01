//! What is written into the text after the compiler has made it.
//!
//! The compiler has no words for these; the assembler bounds registers by them, and the driver
//! refuses a launch that breaks them.

use ptx_text::PtxModule;

use crate::error::BuildError;

/// What one entry promises about its launches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryDirectives {
    entry: String,
    max_threads: Option<[u32; 3]>,
    min_blocks_per_sm: Option<u32>,
    cluster: Option<[u32; 3]>,
    param_align: Vec<(usize, u32)>,
}

impl EntryDirectives {
    /// No promise yet for the entry of that name.
    #[must_use]
    pub fn new(entry: impl Into<String>) -> Self {
        Self { entry: entry.into(), ..Self::default() }
    }

    /// `.maxntid`: a block has `x * y * z` threads at most. Default: the assembler assumes the
    /// most that its target allows.
    #[must_use]
    pub fn max_threads(mut self, x: u32, y: u32, z: u32) -> Self {
        self.max_threads = Some([x, y, z]);
        self
    }

    /// `.minnctapersm`: that many blocks fit on an SM together, so registers are bounded
    /// for it. Counts only beside [`Self::max_threads`]. Default: no bound.
    #[must_use]
    pub fn min_blocks_per_sm(mut self, blocks: u32) -> Self {
        self.min_blocks_per_sm = Some(blocks);
        self
    }

    /// `.reqnctapercluster`: every launch has clusters of this shape. Needs sm_90 and PTX 7.8.
    /// Default: the launch decides.
    #[must_use]
    pub fn cluster(mut self, x: u32, y: u32, z: u32) -> Self {
        self.cluster = Some([x, y, z]);
        self
    }

    /// Aligns a parameter that is passed as bytes, as a tensor map must be. Default: what the
    /// compiler wrote, which is the alignment of the Rust type.
    #[must_use]
    pub fn param_align(mut self, index: usize, bytes: u32) -> Self {
        self.param_align.push((index, bytes));
        self
    }
}

/// The text with the directives written in.
pub(crate) fn insert(text: &str, directives: &[EntryDirectives]) -> Result<String, BuildError> {
    let module = PtxModule::parse(text)?;
    let mut edits = Vec::new();
    for wanted in directives {
        let entry = module.entry(&wanted.entry)?;
        let mut lines = String::new();
        if let Some([x, y, z]) = wanted.max_threads {
            lines.push_str(&format!("\n.maxntid {x}, {y}, {z}"));
        }
        if let Some(blocks) = wanted.min_blocks_per_sm {
            lines.push_str(&format!("\n.minnctapersm {blocks}"));
        }
        if let Some([x, y, z]) = wanted.cluster {
            let directive = ".reqnctapercluster";
            if module.version < (7, 8) || !has_clusters(&module.target) {
                let (major, minor) = module.version;
                return Err(BuildError::TooOld {
                    entry: wanted.entry.clone(),
                    directive,
                    needs: "sm_90 and PTX 7.8",
                    has: format!("{} and PTX {major}.{minor}", module.target),
                });
            }
            lines.push_str(&format!("\n{directive} {x}, {y}, {z}"));
        }
        edits.push((entry.directives_at..entry.directives_at, lines));
        for &(index, bytes) in &wanted.param_align {
            let (Some(param), Some(range)) = (entry.params.get(index), entry.params_at.get(index))
            else {
                return Err(BuildError::NoParam {
                    entry: wanted.entry.clone(),
                    count: entry.params.len(),
                    index,
                });
            };
            if param.align.is_none_or(|align| align < u64::from(bytes)) {
                edits.push((range.clone(), aligned(&text[range.clone()], bytes)));
            }
        }
    }
    // From the end, so that earlier offsets stay true.
    edits.sort_by_key(|(range, _)| std::cmp::Reverse(range.start));
    let mut text = text.to_owned();
    for (range, new) in edits {
        text.replace_range(range, &new);
    }
    Ok(text)
}

fn has_clusters(target: &str) -> bool {
    let digits = target.trim_start_matches("sm_").trim_end_matches(char::is_alphabetic);
    digits.parse::<u32>().is_ok_and(|arch| arch >= 90)
}

/// A declaration with its own alignment raised, whether it stated one or not.
fn aligned(declaration: &str, bytes: u32) -> String {
    const ALIGN: &str = ".align ";
    // What stands behind `.ptr` is about the pointee.
    let own = declaration.find(".ptr").map_or(declaration, |ptr| &declaration[..ptr]);
    match own.find(ALIGN) {
        Some(at) => {
            let value = at + ALIGN.len();
            let digits =
                own[value..].find(|c: char| !c.is_ascii_digit()).unwrap_or(own.len() - value);
            format!("{}{bytes}{}", &declaration[..value], &declaration[value + digits..])
        }
        None => declaration.replacen(".param ", &format!(".param {ALIGN}{bytes} "), 1),
    }
}

#[cfg(test)]
mod tests {
    use ptx_text::PtxError;

    use super::*;

    fn module(version: &str, target: &str) -> String {
        format!(
            ".version {version}\n.target {target}\n// a(\n\
             .visible .entry a(\n\t.param .u64 .ptr .align 1 a_0,\n\t.param .align 4 .b8 a_1[128]\n)\n{{\n\tret;\n}}\n\
             .visible .entry ab()\n{{\n\tret;\n}}\n"
        )
    }

    #[test]
    fn directives_stand_between_parameters_and_body() {
        let text = insert(
            &module("8.0", "sm_90a"),
            &[
                EntryDirectives::new("a").max_threads(16, 8, 1).min_blocks_per_sm(2),
                EntryDirectives::new("ab").max_threads(32, 1, 1).cluster(2, 1, 1),
            ],
        )
        .unwrap();
        assert!(text.contains(")\n.maxntid 16, 8, 1\n.minnctapersm 2\n{"), "{text}");
        assert!(text.contains("ab()\n.maxntid 32, 1, 1\n.reqnctapercluster 2, 1, 1\n{"), "{text}");
        let read = PtxModule::parse(&text).unwrap();
        assert_eq!(read.entries[0].directives, [".maxntid 16, 8, 1", ".minnctapersm 2"]);
        assert_eq!(read.entries[1].directives.len(), 2);
    }

    #[test]
    fn alignment_is_raised_and_never_lowered() {
        let base = module("7.0", "sm_70");
        let raise = |index, bytes| {
            let text = insert(&base, &[EntryDirectives::new("a").param_align(index, bytes)]);
            PtxModule::parse(&text.unwrap()).unwrap().entries[0].params.clone()
        };
        assert_eq!(raise(1, 64)[1].align, Some(64));
        assert_eq!(raise(1, 2)[1].align, Some(4));
        let pointer = raise(0, 16);
        assert_eq!(pointer[0].align, Some(16));
        assert_eq!(pointer[0].ty, "u64");
        assert_eq!(pointer[1].align, Some(4));
    }

    #[test]
    fn nothing_wanted_changes_nothing() {
        let base = module("7.0", "sm_70");
        assert_eq!(insert(&base, &[]).unwrap(), base);
        assert_eq!(insert(&base, &[EntryDirectives::new("a")]).unwrap(), base);
    }

    #[test]
    fn wrong_promises_are_refused() {
        let base = module("7.0", "sm_70");
        let refused = |wanted| insert(&base, &[wanted]).unwrap_err();
        assert!(matches!(
            refused(EntryDirectives::new("b")),
            BuildError::Ptx(PtxError::NoEntry { .. })
        ));
        assert!(matches!(
            refused(EntryDirectives::new("ab").param_align(0, 8)),
            BuildError::NoParam { count: 0, .. }
        ));
        assert!(matches!(
            refused(EntryDirectives::new("a").cluster(2, 1, 1)),
            BuildError::TooOld { .. }
        ));
    }
}
