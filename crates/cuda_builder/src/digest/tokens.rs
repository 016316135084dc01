//! Rust's source as tokens: what is left of a text when comments and layout are taken away.

/// One token of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Token<'t> {
    /// An identifier, a keyword, a lifetime or a number.
    Word(&'t str),
    /// A string or a character, with its quotes and what stands before them.
    Literal(&'t str),
    /// Operator characters without a space between, as `&&`.
    Operator(&'t str),
    /// A bracket, a comma or a semicolon: none of them joins with a neighbour.
    Delimiter(char),
}

impl Token<'_> {
    /// The token as it is written.
    pub(super) fn push_to(self, text: &mut String) {
        match self {
            Self::Word(word) | Self::Literal(word) | Self::Operator(word) => text.push_str(word),
            Self::Delimiter(c) => text.push(c),
        }
    }
}

/// The tokens of a text. A comment or a literal that does not end extends to the end of the text, which
/// no compiler takes.
pub(super) fn tokens(text: &str) -> Vec<Token<'_>> {
    let mut found = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let len = match first {
            _ if first.is_whitespace() => first.len_utf8(),
            '/' if rest.starts_with("//") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => block_comment(rest),
            '"' => literal(&mut found, rest, quoted(rest, '"')),
            '\'' => match character(rest) {
                Some(len) => literal(&mut found, rest, len),
                None => word(&mut found, rest, 1 + word_len(&rest[1..])),
            },
            _ if is_word(first) => match prefixed_literal(rest) {
                Some(len) => literal(&mut found, rest, len),
                None => word(&mut found, rest, word_len(rest)),
            },
            _ if "()[]{},;".contains(first) => {
                found.push(Token::Delimiter(first));
                1
            }
            _ => {
                let len = operator_len(rest);
                found.push(Token::Operator(&rest[..len]));
                len
            }
        };
        rest = &rest[len..];
    }
    found
}

fn literal<'t>(found: &mut Vec<Token<'t>>, rest: &'t str, len: usize) -> usize {
    found.push(Token::Literal(&rest[..len]));
    len
}

fn word<'t>(found: &mut Vec<Token<'t>>, rest: &'t str, len: usize) -> usize {
    found.push(Token::Word(&rest[..len]));
    len
}

fn is_word(c: char) -> bool {
    c == '_' || c.is_alphanumeric()
}

/// Bytes of the word that the text begins with; 0 where it begins with none.
fn word_len(text: &str) -> usize {
    text.find(|c| !is_word(c)).unwrap_or(text.len())
}

/// Bytes of the operators that the text begins with, at least one character.
fn operator_len(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    let end = chars.find(|&(at, c)| {
        let comment = text[at..].starts_with("//") || text[at..].starts_with("/*");
        comment || c.is_whitespace() || is_word(c) || "\"'()[]{},;".contains(c)
    });
    end.map_or(text.len(), |(at, _)| at)
}

/// Bytes of a block comment; those within it nest.
fn block_comment(text: &str) -> usize {
    let bytes = text.as_bytes();
    let (mut depth, mut at) = (0usize, 0);
    while at < bytes.len() {
        match &bytes[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => {
                (depth, at) = (depth - 1, at + 2);
                if depth == 0 {
                    return at;
                }
            }
            _ => at += 1,
        }
    }
    text.len()
}

/// Bytes of a literal from its quote to the next one that no backslash escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}

/// Bytes of the character that the text's quote begins; `None` where it begins a lifetime.
fn character(text: &str) -> Option<usize> {
    let mut chars = text[1..].chars();
    let escaped = chars.next()? == '\\';
    (escaped || chars.next() == Some('\'')).then(|| quoted(text, '\''))
}

/// Bytes of a literal with letters before its quote: `b'x'`, `c"x"`, `r#"x"#`, `br"x"`.
fn prefixed_literal(text: &str) -> Option<usize> {
    let prefix = word_len(text);
    let rest = &text[prefix..];
    match &text[..prefix] {
        "b" if rest.starts_with('\'') => Some(prefix + character(rest)?),
        "b" | "c" if rest.starts_with('"') => Some(prefix + quoted(rest, '"')),
        "r" | "br" | "cr" => {
            let hashes = rest.len() - rest.trim_start_matches('#').len();
            let body = rest[hashes..].strip_prefix('"')?;
            let end = format!("\"{}", "#".repeat(hashes));
            let start = text.len() - body.len();
            Some(body.find(&end).map_or(text.len(), |at| start + at + end.len()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(text: &str) -> Vec<String> {
        let written = |token: Token<'_>| {
            let mut text = String::new();
            token.push_to(&mut text);
            text
        };
        tokens(text).into_iter().map(written).collect()
    }

    #[test]
    fn comments_and_layout_are_no_tokens() {
        let plain = written("fn f(x: u32) -> u32 { x + 1 }");
        assert_eq!(plain.join(" "), "fn f ( x : u32 ) -> u32 { x + 1 }");
        for same in [
            "/// Words.\nfn f(x: u32) -> u32 {\n    // More.\n    x + 1\n}\n",
            "//! Words, \"quoted, 'and more.\nfn f(x: u32)\n-> u32 { x /* one */ + /* /* two */ */ 1 }",
            "fn f(x: u32)->u32{x+1}// the end",
            "fn f(/* a \" in a comment */x: u32) -> u32 { x + 1 }",
        ] {
            assert_eq!(written(same), plain, "{same}");
        }
    }

    #[test]
    fn what_looks_like_a_comment_in_a_literal_is_a_token() {
        for (text, tokens) in [
            (r#"f("http://x", y)"#, vec!["f", "(", r#""http://x""#, ",", "y", ")"]),
            (r#""a \" // b" c"#, vec![r#""a \" // b""#, "c"]),
            (r#""a \\" // b"#, vec![r#""a \\""#]),
            ("r\"\\\" // b\n x", vec!["r\"\\\"", "x"]),
            (r###"r##"a "# /* "## b"###, vec![r###"r##"a "# /* "##"###, "b"]),
            (
                r#"br"/*" cr"//" c"/*" b"//" x"#,
                vec![r#"br"/*""#, r#"cr"//""#, r#"c"/*""#, r#"b"//""#, "x"],
            ),
            (
                r"'\'' '/' '/' b'\'' '\u{2f}' x",
                vec![r"'\''", "'/'", "'/'", r"b'\''", r"'\u{2f}'", "x"],
            ),
            ("'\"' // b", vec!["'\"'"]),
            ("'é' 'a", vec!["'é'", "'a"]),
        ] {
            assert_eq!(written(text), tokens, "{text}");
        }
    }

    #[test]
    fn lifetimes_and_raw_names_are_no_literals() {
        assert_eq!(written("fn f<'a>(x: &'a str)").join(" "), "fn f < 'a > ( x : & 'a str )");
        assert_eq!(written("'outer: loop { break 'outer; }")[0], "'outer");
        assert_eq!(written("r#fn(b, r, br)").join(" "), "r # fn ( b , r , br )");
        assert_eq!(written("<'_>").join(" "), "< '_ >");
    }

    #[test]
    fn operators_join_where_nothing_parts_them() {
        assert_eq!(written("a && b"), ["a", "&&", "b"]);
        assert_eq!(written("a & & b"), ["a", "&", "&", "b"]);
        assert_eq!(written("a &/* x */& b"), ["a", "&", "&", "b"]);
        assert_eq!(written("x *// y\n z"), ["x", "*", "z"]);
        assert_eq!(written("1.5e-3f32 0..=9"), ["1", ".", "5e", "-", "3f32", "0", "..=", "9"]);
    }

    #[test]
    fn what_does_not_end_goes_to_the_end() {
        for text in ["/* a", "\"a", "r#\"a\"", "'\\", "b'\\", "/* /* */", "\"\\"] {
            assert!(tokens(text).len() <= 1, "{text}");
        }
    }
}
