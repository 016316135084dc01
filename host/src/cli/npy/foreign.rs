//! Words for what a file holds where it holds no matrix of a known type.

/// What makes a matrix of one of the known types of an array.
pub(super) fn remedy(descriptor: &str) -> &'static str {
    let kind = descriptor.trim_start_matches(['>', '<', '|', '=']).chars().next();
    match kind {
        Some('i' | 'u' | 'b' | '?') => "convert it with a.astype('<f8') or a.astype('<i4')",
        Some('f') => "convert it with a.astype('<f4') or a.astype('<f8')",
        Some('c') => "save a.real and a.imag, each as a matrix of its own",
        _ => "save the numbers in it as an array of one of these types",
    }
}

/// What a type descriptor means.
pub(super) fn words(descriptor: &str) -> String {
    let (order, kind) = match descriptor.chars().next() {
        Some('>') => ("big-endian ", &descriptor[1..]),
        Some('<' | '|' | '=') => ("", &descriptor[1..]),
        _ => ("", descriptor),
    };
    let bits = |name: &str| match kind.get(1..).and_then(|bytes| bytes.parse::<u32>().ok()) {
        Some(bytes) => format!("{order}{}-bit {name}", u64::from(bytes) * 8),
        None => format!("{order}{name}"),
    };
    match kind.chars().next() {
        Some('f') => bits("floats"),
        Some('i') => bits("integers"),
        Some('u') => bits("unsigned integers"),
        Some('c') => bits("complex numbers"),
        Some('b' | '?') => "booleans".to_owned(),
        Some('S' | 'U' | 'a') => "text".to_owned(),
        Some('M' | 'm') => "times".to_owned(),
        Some('O') => "Python objects".to_owned(),
        _ => "elements of another type".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_types_are_named() {
        for (descriptor, text) in [
            ("<i8", "64-bit integers"),
            (">f4", "big-endian 32-bit floats"),
            ("|u1", "8-bit unsigned integers"),
            (">f2", "big-endian 16-bit floats"),
            ("<c16", "128-bit complex numbers"),
            ("|b1", "booleans"),
            ("|O", "Python objects"),
            ("", "elements of another type"),
            ("é", "elements of another type"),
        ] {
            assert_eq!(words(descriptor), text, "{descriptor}");
        }
    }

    #[test]
    fn only_numbers_are_to_be_converted() {
        for descriptor in ["<i8", "|u1", ">f4", "|b1", "<f16"] {
            assert!(remedy(descriptor).contains("astype"), "{descriptor}");
        }
        for descriptor in ["|O", "|V4", "<U3", "<M8[s]", "<c16", "", "é"] {
            assert!(!remedy(descriptor).contains("astype"), "{descriptor}");
        }
    }
}
