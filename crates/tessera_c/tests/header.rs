//! `include/tessera.h` is what this crate's source gives, and the shared library exports its functions alone.
//!
//! `WRITE_HEADER=1 cargo test -p tessera-c --test header` writes it.

use std::path::{Path, PathBuf};
use std::process::Command;

use cbindgen::{Config, DocumentationStyle, Language, Style};

const BEGIN: &str = "\
/* Matrix products on CPU and GPU: C = alpha * A * B + beta * C.
 *
 * Every function may be called from any number of threads at once. A function that fails does nothing,
 * but where its text says otherwise; tessera_last_error() says why it did.
 *
 * Made from crates/tessera_c, see docs/embed-c.md. */

#ifndef TESSERA_H
#define TESSERA_H
";

const END: &str = "\
/* C = A * B on all threads. */
#define TESSERA_GEMM_OPTIONS_INIT \\
  {sizeof(tessera_gemm_options), 1.0, 0.0, 0.0, 0.0, 0, NULL, NULL, NULL}

/* The usual settings. */
#define TESSERA_ENGINE_OPTIONS_INIT {sizeof(tessera_engine_options), 0, 0, 0, 0, 0, 0, 0}

/* The usual settings. */
#define TESSERA_STREAM_OPTIONS_INIT {sizeof(tessera_stream_options), 0, 0}

/* Nothing is done besides. */
#define TESSERA_EPILOGUE_INIT {sizeof(tessera_epilogue), 0, 0, 0, 0, 0, 0, 0}

/* No numbers. */
#define TESSERA_EPILOGUE_NUMBERS_INIT {sizeof(tessera_epilogue_numbers), NULL, NULL, NULL, NULL, NULL}

/* A matrix whose rows are contiguous and ld elements apart. */
static inline tessera_matrix tessera_row_major(tessera_dtype dtype, const void *data, size_t rows,
                                               size_t cols, size_t ld) {
  tessera_matrix matrix;
  matrix.size = sizeof(tessera_matrix);
  matrix.data = (void *)data;
  matrix.rows = rows;
  matrix.cols = cols;
  matrix.row_stride = (ptrdiff_t)ld;
  matrix.col_stride = 1;
  matrix.dtype = dtype;
  matrix.reserved = 0;
  return matrix;
}

/* A matrix whose columns are contiguous and ld elements apart. */
static inline tessera_matrix tessera_col_major(tessera_dtype dtype, const void *data, size_t rows,
                                               size_t cols, size_t ld) {
  tessera_matrix matrix = tessera_row_major(dtype, data, rows, cols, 1);
  matrix.col_stride = (ptrdiff_t)ld;
  return matrix;
}

/* The transposed matrix: the same elements, read the other way round. */
static inline tessera_matrix tessera_transposed(tessera_matrix matrix) {
  tessera_matrix transposed = matrix;
  transposed.rows = matrix.cols;
  transposed.cols = matrix.rows;
  transposed.row_stride = matrix.col_stride;
  transposed.col_stride = matrix.row_stride;
  return transposed;
}

/* D = A * B on a device, of one type, all row-major and tightly packed. A run may be given any workspace, and
 * addresses at multiples of 16. */
static inline tessera_gemm_desc tessera_gemm_desc_row_major(tessera_dtype dtype, size_t m, size_t n,
                                                            size_t k) {
  tessera_gemm_desc desc;
  desc.size = sizeof(tessera_gemm_desc);
  desc.m = m;
  desc.n = n;
  desc.k = k;
  desc.a_dtype = desc.b_dtype = desc.c_dtype = dtype;
  desc.a_order = desc.b_order = desc.c_order = desc.d_order = TESSERA_ROW_MAJOR;
  desc.transa = desc.transb = 0;
  desc.accuracy = TESSERA_ACCURACY_FP32;
  desc.lda = k;
  desc.ldb = desc.ldc = desc.ldd = n;
  desc.alpha = 1.0;
  desc.beta = 0.0;
  desc.batch_count = 1;
  desc.a_stride = desc.b_stride = desc.c_stride = desc.d_stride = 0;
  desc.batch = TESSERA_BATCH_STRIDED;
  desc.reserved = 0;
  desc.workspace_limit = SIZE_MAX;
  desc.alignment = 16;
  desc.epilogue = NULL;
  desc.prepared = TESSERA_PREPARED_NONE;
  desc.limbs = TESSERA_LIMBS_TWO_F16;
  return desc;
}

/* The same, all column-major as in BLAS. */
static inline tessera_gemm_desc tessera_gemm_desc_col_major(tessera_dtype dtype, size_t m, size_t n,
                                                            size_t k) {
  tessera_gemm_desc desc = tessera_gemm_desc_row_major(dtype, m, n, k);
  desc.a_order = desc.b_order = desc.c_order = desc.d_order = TESSERA_COL_MAJOR;
  desc.lda = desc.ldc = desc.ldd = m;
  desc.ldb = k;
  return desc;
}

#endif /* TESSERA_H */
";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// The header of the source as it is.
fn generated() -> String {
    let config = Config {
        language: Language::C,
        cpp_compat: true,
        header: Some(BEGIN.to_owned()),
        trailer: Some(END.to_owned()),
        no_includes: true,
        sys_includes: ["stddef.h", "stdint.h"].map(str::to_owned).to_vec(),
        style: Style::Both,
        documentation_style: DocumentationStyle::C99,
        line_length: 100,
        usize_is_size_t: true,
        ..Config::default()
    };
    let bindings = cbindgen::Builder::new().with_crate(folder()).with_config(config).generate();
    let mut text = Vec::new();
    bindings.expect("the source is one that cbindgen reads").write(&mut text);
    let text = String::from_utf8(text).expect("it is text");
    // What Rust's documentation calls by its own name.
    text.replace("// # Safety\n", "// The caller promises:\n")
}

#[test]
fn the_header_is_that_of_the_source() {
    let path = folder().join("include/tessera.h");
    let generated = generated();
    if std::env::var_os("WRITE_HEADER").is_some() {
        std::fs::write(&path, &generated).expect("it is written");
    }
    let committed = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == generated,
        "include/tessera.h is not what the source gives; \
         `WRITE_HEADER=1 cargo test -p tessera-c --test header` writes it"
    );
}

/// The names of a structure's fields.
fn fields<'t>(text: &'t str, structure: &str) -> Vec<&'t str> {
    let (_, rest) =
        text.split_once(&format!("typedef struct {structure} {{")).expect("it is there");
    let (body, _) = rest.split_once('}').expect("it ends");
    let lines = body.lines().map(str::trim).filter(|line| !line.starts_with("//"));
    let name = |line: &'t str| line.strip_suffix(';')?.rsplit([' ', '*']).next();
    lines.filter_map(name).collect()
}

/// What fills a structure in leaves nothing of it as it was in memory.
#[test]
fn every_field_is_filled_in() {
    let text = generated();
    for (structure, variable) in [("tessera_gemm_desc", "desc"), ("tessera_matrix", "matrix")] {
        let fields = fields(&text, structure);
        assert!(fields.len() >= 8, "{fields:?}");
        for field in fields {
            assert!(END.contains(&format!("{variable}.{field} = ")), "{structure}: {field}");
        }
    }
}

/// Names that the header declares as functions of the library.
fn declared() -> Vec<String> {
    let text = generated();
    let mut names: Vec<String> = text
        .split("static inline")
        .next()
        .expect("there is a part before them")
        .match_indices("tessera_")
        .filter_map(|(at, _)| {
            let name: &str =
                text[at..].split(|it: char| !it.is_ascii_alphanumeric() && it != '_').next()?;
            // In comments a name may be followed by a parenthesis, too.
            let is_call = text[at + name.len()..].starts_with('(');
            let line = text[..at].rsplit('\n').next()?;
            let in_comment = line.trim_start().starts_with(['*', '/']);
            (is_call && !in_comment).then(|| name.to_owned())
        })
        .collect();
    names.sort_unstable();
    names.dedup();
    names
}

fn library() -> PathBuf {
    let test = std::env::current_exe().expect("a program has a path");
    let library = test.parent().expect("it is in a folder").join("libtessera_c.so");
    assert!(library.exists(), "there is no {}", library.display());
    library
}

fn output(program: &str, arguments: &[&str], library: &Path) -> String {
    let output = Command::new(program).args(arguments).arg(library).output();
    let output = output.unwrap_or_else(|error| panic!("{program}, of binutils: {error}"));
    assert!(output.status.success(), "{program}: {}", output.status);
    String::from_utf8(output.stdout).expect("it is text")
}

/// No name more, none of CUDA's or Rust's, and none less.
#[test]
#[cfg(target_os = "linux")]
fn exports_are_the_functions_of_the_header() {
    let text = output("nm", &["-D", "--defined-only"], &library());
    let mut names: Vec<String> =
        text.lines().filter_map(|line| line.split(' ').next_back()).map(str::to_owned).collect();
    names.sort_unstable();
    let declared = declared();
    assert!(declared.len() >= 9, "{declared:?}");
    assert_eq!(names, declared);
}

/// It has the name that programs look for, stays when it is closed, and needs the system alone.
#[test]
#[cfg(target_os = "linux")]
fn it_is_linked_as_a_library_with_a_version() {
    let dynamic = output("readelf", &["-d"], &library());
    let has =
        |words: &[&str]| dynamic.lines().any(|line| words.iter().all(|word| line.contains(word)));
    assert!(has(&["SONAME", "[libtessera.so.0]"]), "{dynamic}");
    assert!(has(&["FLAGS_1", "NODELETE"]), "{dynamic}");
    for line in dynamic.lines().filter(|line| line.contains("NEEDED")) {
        let system = ["libc.so", "libgcc_s.so", "ld-linux", "libm.so"];
        assert!(system.iter().any(|name| line.contains(name)), "{line}");
    }
}
