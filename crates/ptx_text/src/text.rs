//! The grammar below the reader: comments, braces, directives and statements.

/// The text with comments and strings blanked out, so that every offset stays.
pub(super) fn without_comments(text: &str) -> String {
    let bytes = text.as_bytes();
    let mut code = bytes.to_vec();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let len = if rest.starts_with(b"//") {
            rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len())
        } else if rest.starts_with(b"/*") {
            rest.windows(2).skip(2).position(|w| w == b"*/").map_or(rest.len(), |end| end + 4)
        } else if rest[0] == b'"' {
            let end = rest[1..].iter().position(|&b| b == b'"' || b == b'\n');
            end.map_or(rest.len(), |end| end + 2)
        } else {
            at += 1;
            continue;
        };
        for byte in &mut code[at..at + len] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at += len;
    }
    // Outside comments and strings PTX is ASCII; what is not cannot be code.
    code.into_iter().map(|byte| if byte.is_ascii() { char::from(byte) } else { ' ' }).collect()
}

pub(super) fn word_after<'a>(code: &'a str, directive: &str) -> Option<&'a str> {
    let at = code.find(directive)? + directive.len();
    code[at..].split_whitespace().next()
}

/// Names behind `.extern .func`, with or without a returned value between.
pub(super) fn externals(code: &str) -> Vec<String> {
    code.match_indices(".extern")
        .filter_map(|(at, _)| {
            let rest =
                code[at + ".extern".len()..].trim_start().strip_prefix(".func")?.trim_start();
            let rest = match rest.strip_prefix('(') {
                Some(returned) => returned.split_once(')')?.1,
                None => rest,
            };
            let name = rest.split(['(', ';']).next()?.split_whitespace().next()?;
            Some(name.to_owned())
        })
        .collect()
}

/// Each directive with its operands, spaces made single.
pub(super) fn directives(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match found.last_mut() {
            Some(last) if !word.starts_with('.') => {
                last.push(' ');
                last.push_str(word);
            }
            _ => found.push(word.to_owned()),
        }
    }
    found
}

/// What stands between the brace that the text begins with and its partner.
pub(super) fn braced(text: &str) -> Option<&str> {
    let mut depth = 0;
    for (at, byte) in text.bytes().enumerate() {
        match byte {
            b'{' => depth += 1,
            b'}' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return text.get(1..at);
        }
    }
    None
}

/// Statements end with a semicolon; braces group them and labels stand before them. Vector operands
/// have braces of their own, behind the opcode.
pub(super) fn statements(body: &str) -> Vec<String> {
    body.split(';')
        .map(|statement| {
            let mut rest =
                statement.trim_start_matches(|c: char| c.is_whitespace() || "{}".contains(c));
            while let Some((label, behind)) = rest.split_once(':') {
                let plain = |c: char| c.is_ascii_alphanumeric() || "_$%".contains(c);
                if label.is_empty() || !label.chars().all(plain) {
                    break;
                }
                rest = behind.trim_start_matches(|c: char| c.is_whitespace() || "{}".contains(c));
            }
            rest.split_whitespace().collect::<Vec<_>>().join(" ")
        })
        .filter(|statement| !statement.is_empty())
        .collect()
}
