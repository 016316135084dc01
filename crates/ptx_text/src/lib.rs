//! A reader for PTX modules: as much of the language as a report and a check need.
//!
//! It reads the module's version and target, each entry's name, parameters and directives, and the
//! statements of its body.

#![forbid(unsafe_code)]

mod text;

use std::fmt;
use std::ops::Range;

use text::{braced, directives, externals, statements, without_comments, word_after};

/// Why a text is not a PTX module, or not the one that was meant.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PtxError {
    /// A module begins with `.version` and `.target`.
    NoDirective(&'static str),
    /// A declaration cannot be read.
    Declaration {
        /// The entry; empty where its name is what cannot be read.
        entry: String,
        /// The piece of text.
        text: String,
    },
    /// The module does not have an entry that was asked for.
    NoEntry {
        /// The entry.
        entry: String,
        /// Those that it has.
        present: String,
    },
}

impl fmt::Display for PtxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDirective(name) => write!(
                f,
                "the text has no {name} directive, so it is no PTX module; build it again"
            ),
            Self::Declaration { entry, text } => write!(f, "entry {entry}: cannot read `{text}`"),
            Self::NoEntry { entry, present } => {
                write!(f, "the module has no entry {entry}; its entries are {present}")
            }
        }
    }
}

impl std::error::Error for PtxError {}

/// A module: one `.ptx` file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxModule {
    /// The language's version, as (7, 0).
    pub version: (u32, u32),
    /// The arch that it is for, as `sm_70`.
    pub target: String,
    /// Its entries, in the order of the text.
    pub entries: Vec<PtxEntry>,
    /// Functions that are declared here and defined elsewhere.
    pub externals: Vec<String>,
}

/// One kernel of a module.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PtxEntry {
    /// Its name.
    pub name: String,
    /// Its parameters, in order.
    pub params: Vec<Param>,
    /// The directives between its parameters and its body, as `.maxntid 16, 16, 1`.
    pub directives: Vec<String>,
    /// The statements of its body, without comments and labels, in order.
    pub statements: Vec<String>,
    /// Where directives are inserted: behind the parameters, in bytes.
    pub directives_at: usize,
    /// Where each parameter's declaration stands, in bytes.
    pub params_at: Vec<Range<usize>>,
    /// Where the whole entry stands, from the line that declares it to its closing brace, in bytes.
    pub at: Range<usize>,
}

/// One parameter of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Param {
    /// Its name in the text.
    pub name: String,
    /// Its type without the dot, as `u32` or `b8`.
    pub ty: String,
    /// Elements, where it is an array: a value that is passed as bytes.
    pub array: Option<u64>,
    /// Its own alignment, where it states one.
    pub align: Option<u64>,
}

impl Param {
    /// Bytes of the parameter; 0 for a type that this reader does not know.
    #[must_use]
    pub fn size(&self) -> u64 {
        let bits: u64 =
            self.ty.trim_start_matches(|c: char| !c.is_ascii_digit()).parse().unwrap_or(0);
        (bits / 8).saturating_mul(self.array.unwrap_or(1))
    }
}

impl fmt::Display for Param {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Of a number the alignment follows from its type.
        if let (Some(bytes), Some(_)) = (self.align, self.array) {
            write!(f, ".align {bytes} ")?;
        }
        write!(f, ".{}", self.ty)?;
        self.array.map_or(Ok(()), |count| write!(f, "[{count}]"))
    }
}

impl PtxModule {
    /// Reads a module.
    ///
    /// # Errors
    /// [`PtxError`] where the text is no module or an entry's declaration cannot be read.
    pub fn parse(text: &str) -> Result<Self, PtxError> {
        let code = without_comments(text);
        let version = word_after(&code, ".version").ok_or(PtxError::NoDirective(".version"))?;
        let (major, minor) = version.split_once('.').ok_or(PtxError::NoDirective(".version"))?;
        let number = |digits: &str| digits.parse().map_err(|_| PtxError::NoDirective(".version"));
        let target = word_after(&code, ".target").ok_or(PtxError::NoDirective(".target"))?;
        let mut entries = Vec::new();
        for (at, _) in code.match_indices(".entry") {
            entries.push(PtxEntry::parse(&code, at + ".entry".len())?);
        }
        Ok(Self {
            version: (number(major)?, number(minor)?),
            target: target.trim_end_matches(',').to_owned(),
            entries,
            externals: externals(&code),
        })
    }

    /// The module's text with some of its entries alone, as they stand there: what is outside of entries
    /// stays, and a comment goes with the entry that it stands before. `text` is what this was parsed
    /// from.
    ///
    /// ```
    /// # fn main() -> Result<(), ptx_text::PtxError> {
    /// let text = ".version 7.0\n.target sm_70\n.visible .entry a() { ret; }\n.visible .entry b() { ret; }\n";
    /// let module = ptx_text::PtxModule::parse(text)?;
    /// let cut = module.cut(text, |entry| entry.name == "b");
    /// assert_eq!(cut, ".version 7.0\n.target sm_70\n\n.visible .entry b() { ret; }\n");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub fn cut(&self, text: &str, keep: impl Fn(&PtxEntry) -> bool) -> String {
        let code = without_comments(text);
        let mut cut = String::new();
        let mut end = 0;
        let outside = |range: Range<usize>| {
            // Of the lines between entries those that hold nothing but a comment are about an entry.
            let (text, code) = (&text[range.clone()], &code[range]);
            let lines = text.split_inclusive('\n').zip(code.split_inclusive('\n'));
            lines
                .filter(|(_, code)| !code.trim().is_empty())
                .map(|(text, _)| text)
                .collect::<String>()
        };
        for entry in &self.entries {
            // Of what is no PTX, two may seem to stand in one place.
            let start = entry.at.start.max(end);
            cut.push_str(&outside(end..start));
            end = entry.at.end.max(start);
            if keep(entry) {
                cut.push('\n');
                cut.push_str(&text[start..end]);
                cut.push('\n');
            }
        }
        cut.push_str(&outside(end..text.len()));
        cut
    }

    /// The entry of that name.
    ///
    /// # Errors
    /// [`PtxError::NoEntry`], which names those that there are.
    pub fn entry(&self, name: &str) -> Result<&PtxEntry, PtxError> {
        self.entries.iter().find(|entry| entry.name == name).ok_or_else(|| PtxError::NoEntry {
            entry: name.to_owned(),
            present: self
                .entries
                .iter()
                .map(|entry| entry.name.as_str())
                .collect::<Vec<_>>()
                .join(", "),
        })
    }
}

impl PtxEntry {
    /// Reads the entry whose name begins at `at`.
    fn parse(code: &str, at: usize) -> Result<Self, PtxError> {
        let unreadable = |entry: &str, text: &str| PtxError::Declaration {
            entry: entry.to_owned(),
            text: text.chars().take(60).collect(),
        };
        let rest = &code[at..];
        let head_len = rest.find(['(', '{']).ok_or_else(|| unreadable("", rest))?;
        let name =
            rest[..head_len].split_whitespace().next().ok_or_else(|| unreadable("", rest))?;
        let mut params = Vec::new();
        let mut params_at = Vec::new();
        let mut directives_at = at + head_len;
        if rest[head_len..].starts_with('(') {
            let open = at + head_len + 1;
            let len = code[open..].find(')').ok_or_else(|| unreadable(name, rest))?;
            directives_at = open + len + 1;
            let mut start = open;
            for text in code[open..open + len].split(',').filter(|text| !text.trim().is_empty()) {
                params.push(Param::parse(text).ok_or_else(|| unreadable(name, text.trim()))?);
                params_at.push(start..start + text.len());
                start += text.len() + 1;
            }
        }
        let body_at = code[directives_at..].find('{').ok_or_else(|| unreadable(name, rest))?;
        let directives = directives(&code[directives_at..directives_at + body_at]);
        let body =
            braced(&code[directives_at + body_at..]).ok_or_else(|| unreadable(name, rest))?;
        let begins = code[..at].rfind('\n').map_or(0, |end| end + 1);
        Ok(Self {
            name: name.to_owned(),
            params,
            directives,
            statements: statements(body),
            directives_at,
            params_at,
            at: begins..directives_at + body_at + body.len() + 2,
        })
    }

    /// The opcodes of the body with their modifiers, as `fma.rn.f32`, predicates left out.
    pub fn opcodes(&self) -> impl Iterator<Item = &str> {
        self.statements
            .iter()
            .filter_map(|statement| {
                statement.split_whitespace().find(|word| !word.starts_with('@'))
            })
            .filter(|opcode| !opcode.starts_with('.'))
    }

    /// Statements that take memory which each thread has for itself: arrays that did not fit into
    /// registers.
    #[must_use]
    pub fn local_memory(&self) -> Vec<&str> {
        self.statements
            .iter()
            .map(String::as_str)
            .filter(|statement| {
                let mut words = statement.split_whitespace().filter(|word| !word.starts_with('@'));
                words.next().is_some_and(|word| word.split('.').any(|part| part == "local"))
            })
            .collect()
    }

    /// Statements that call a function.
    #[must_use]
    pub fn calls(&self) -> Vec<&str> {
        self.with_opcode("call")
    }

    /// Statements that stop the kernel with an error: what is left of a panic.
    #[must_use]
    pub fn traps(&self) -> Vec<&str> {
        self.with_opcode("trap")
    }

    fn with_opcode(&self, name: &str) -> Vec<&str> {
        self.statements
            .iter()
            .map(String::as_str)
            .filter(|statement| {
                let mut words = statement.split_whitespace().filter(|word| !word.starts_with('@'));
                words.next().is_some_and(|word| word.split('.').next() == Some(name))
            })
            .collect()
    }
}

impl Param {
    /// Reads `.param .align 8 .b8 name[16]`, or `.param .u64 .ptr .global .align 4 name`.
    fn parse(text: &str) -> Option<Self> {
        let mut words = text.split_whitespace();
        if words.next()? != ".param" {
            return None;
        }
        let (mut ty, mut align, mut name) = (None, None, None);
        let mut pointer = false;
        while let Some(word) = words.next() {
            match word {
                // Behind `.ptr` it is the alignment of what the parameter points to.
                ".align" => {
                    let value = words.next()?.parse().ok()?;
                    if !pointer {
                        align = Some(value);
                    }
                }
                ".ptr" => pointer = true,
                ".global" | ".const" | ".shared" | ".local" => {}
                _ => match word.strip_prefix('.') {
                    Some(word) => ty = Some(word.to_owned()),
                    None => name = Some(word),
                },
            }
        }
        let name = name?;
        let (name, array) = match name.split_once('[') {
            Some((name, count)) => (name, Some(count.strip_suffix(']')?.parse().ok()?)),
            None => (name, None),
        };
        Some(Self { name: name.to_owned(), ty: ty?, array, align })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = r#"//
// Generated by LLVM NVPTX Back-End, .entry in_a_comment(
//

.version 8.7
.target sm_90a
.address_size 64

.extern .func  (.param .b32 func_retval0) far_away
(
	.param .b32 far_away_param_0
)
;
.extern .func panic();
.extern .shared .align 16 .b8 tile[];

	// .globl	gemm_f32
.visible .entry gemm_f32(
	.param .u32 gemm_f32_param_0,
	.param .f64 gemm_f32_param_1,
	.param .u64 .ptr .global .align 4 gemm_f32_param_2,
	.param .align 64 .b8 gemm_f32_param_3[128]
)
.maxntid 16, 16, 1
.minnctapersm 2
{
	.reg .pred 	%p<2>;
	.reg .b32 	%r<6>;
	/* block } comment */
	ld.param.b32 	%r3, [gemm_f32_param_0];
	{ // callseq 0, 0
	.param .b32 	param0;
	call.uni (retval0), far_away, (param0);
	} // callseq 0
	@%p1 bra 	$L__BB2_2;
	ld.shared.v2.b32 	{%r1, %r2}, [%rd1];
	.pragma "nounroll; trap;";
	fma.rn.f32 	%r1, %r2, %r3, %r1;
$L__BB2_2:
	@!%p1 trap;
	ret;

}
.visible .entry nothing()
{
	.local .align 8 .b8 	__local_depot0[64];
	st.local.u32 	[%rd2], %r1;
	cvta.local.u64 	%rd3, %rd2;
	ret;
}
"#;

    #[test]
    fn the_module_is_read() {
        let module = PtxModule::parse(MODULE).unwrap();
        assert_eq!(module.version, (8, 7));
        assert_eq!(module.target, "sm_90a");
        let names: Vec<&str> = module.entries.iter().map(|entry| entry.name.as_str()).collect();
        assert_eq!(names, ["gemm_f32", "nothing"]);
        assert_eq!(module.externals, ["far_away", "panic"]);
    }

    #[test]
    fn parameters_have_type_size_array_and_alignment() {
        let module = PtxModule::parse(MODULE).unwrap();
        let params = &module.entry("gemm_f32").unwrap().params;
        let shown: Vec<String> = params.iter().map(ToString::to_string).collect();
        assert_eq!(shown, [".u32", ".f64", ".u64", ".align 64 .b8[128]"]);
        let sizes: Vec<u64> = params.iter().map(Param::size).collect();
        assert_eq!(sizes, [4, 8, 8, 128]);
        assert_eq!(params[2].align, None, "the alignment of what a pointer points to");
        assert_eq!(params[3].align, Some(64));
        assert_eq!(params[3].name, "gemm_f32_param_3");
        assert!(module.entry("nothing").unwrap().params.is_empty());
        let vast = Param { array: Some(u64::MAX), ..params[3].clone() };
        assert_eq!(Param { ty: "b64".to_owned(), ..vast }.size(), u64::MAX);
    }

    #[test]
    fn a_cut_module_has_what_it_keeps_as_it_stood() {
        let module = PtxModule::parse(MODULE).unwrap();
        let cut = module.cut(MODULE, |entry| entry.name == "nothing");
        assert_eq!(PtxModule::parse(&cut).unwrap().externals, module.externals);
        let entry = &module.entries[1];
        assert!(cut.contains(&MODULE[entry.at.clone()]) && cut.ends_with("\n}\n"), "{cut}");
        assert!(MODULE[entry.at.clone()].starts_with(".visible .entry nothing()"));
        assert!(!cut.contains("gemm_f32"), "{cut}");
        for line in [".version 8.7", ".target sm_90a", ".extern .shared .align 16 .b8 tile[];"] {
            assert!(cut.lines().any(|of| of == line), "{line}: {cut}");
        }
        // All entries in one cut, and each in a cut of its own, are the same entries.
        let whole = PtxModule::parse(&module.cut(MODULE, |_| true)).unwrap();
        for (at, entry) in module.entries.iter().enumerate() {
            let own = module.cut(MODULE, |of| of.name == entry.name);
            let own = PtxModule::parse(&own).unwrap();
            assert_eq!(own.entries.len(), 1);
            assert_eq!(own.entries[0].statements, entry.statements);
            assert_eq!(whole.entries[at].statements, entry.statements);
        }
    }

    #[test]
    fn directives_are_read() {
        let module = PtxModule::parse(MODULE).unwrap();
        assert_eq!(module.entries[0].directives, [".maxntid 16, 16, 1", ".minnctapersm 2"]);
        assert!(module.entries[1].directives.is_empty());
    }

    #[test]
    fn opcodes_come_without_predicates_labels_and_comments() {
        let module = PtxModule::parse(MODULE).unwrap();
        let opcodes: Vec<&str> = module.entries[0].opcodes().collect();
        assert_eq!(
            opcodes,
            ["ld.param.b32", "call.uni", "bra", "ld.shared.v2.b32", "fma.rn.f32", "trap", "ret"]
        );
    }

    #[test]
    fn what_a_kernel_must_not_have_is_found() {
        let module = PtxModule::parse(MODULE).unwrap();
        let [gemm, nothing] = &module.entries[..] else { panic!("two entries") };
        assert_eq!(gemm.calls(), ["call.uni (retval0), far_away, (param0)"]);
        assert_eq!(gemm.traps(), ["@!%p1 trap"]);
        assert!(gemm.local_memory().is_empty());
        assert_eq!(nothing.local_memory().len(), 3);
        assert!(nothing.calls().is_empty() && nothing.traps().is_empty());
    }

    #[test]
    fn other_texts_are_refused() {
        assert_eq!(PtxModule::parse("").unwrap_err(), PtxError::NoDirective(".version"));
        assert_eq!(
            PtxModule::parse(".version 7.0\n").unwrap_err(),
            PtxError::NoDirective(".target")
        );
        for broken in ["k(.param .u32 x", "k(.parm .u32 x) {}", "k(.param .u32) {}", "k() {", ""] {
            let text = format!(".version 7.0\n.target sm_70\n.entry {broken}");
            assert!(
                matches!(PtxModule::parse(&text), Err(PtxError::Declaration { .. })),
                "{broken}"
            );
        }
        let named = PtxModule::parse(MODULE).unwrap().entry("sgemm").unwrap_err().to_string();
        assert!(named.contains("sgemm") && named.contains("gemm_f32, nothing"), "{named}");
    }
}
