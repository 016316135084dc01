//! Which parts of a source the device build of one arch compiles.

use super::tokens::Token;

/// What the device build of one arch takes from a text.
pub(super) struct Reached<'t> {
    /// The tokens, without items that a `cfg` takes out.
    pub(super) tokens: Vec<Token<'t>>,
    /// The modules whose text is in files of their own: the path of names from this file's module.
    pub(super) modules: Vec<Vec<&'t str>>,
}

/// Leaves out the items that a `cfg` takes out of the device build of an arch, tests among them. A `cfg`
/// of anything else than an item is not looked at: what it holds is kept.
pub(super) fn reached<'t>(tokens: &[Token<'t>], arch: &str) -> Reached<'t> {
    let mut reached = Reached { tokens: Vec::with_capacity(tokens.len()), modules: Vec::new() };
    take(tokens, arch, &mut Vec::new(), &mut reached);
    reached
}

fn take<'t>(
    tokens: &[Token<'t>],
    arch: &str,
    within: &mut Vec<&'t str>,
    reached: &mut Reached<'t>,
) {
    let mut at = 0;
    while at < tokens.len() {
        let start = at;
        let mut compiled = true;
        while let Some(len) = attribute(&tokens[at..]) {
            compiled &= cfg(&tokens[at..at + len], arch).unwrap_or(true);
            at += len;
        }
        if !compiled && let Some(len) = item(&tokens[at..]) {
            at += len;
            continue;
        }
        let rest = &tokens[at..];
        let visible = visibility(rest);
        match rest[visible..] {
            [Token::Word("mod"), Token::Word(name), Token::Delimiter(';'), ..] => {
                let mut path = within.clone();
                path.push(name);
                reached.modules.push(path);
                at += visible + 3;
            }
            [Token::Word("mod"), Token::Word(name), Token::Delimiter('{'), ..] => {
                let end = at + visible + 2 + group(&rest[visible + 2..]);
                reached.tokens.extend(&tokens[start..at + visible + 3]);
                within.push(name);
                take(&tokens[at + visible + 3..end], arch, within, reached);
                within.pop();
                at = end;
                continue;
            }
            // Attributes of something else, or nothing but a token.
            _ if at == start => at += 1,
            _ => {}
        }
        reached.tokens.extend(&tokens[start..at]);
    }
}

/// Tokens of the outer attribute that these begin with.
fn attribute(tokens: &[Token<'_>]) -> Option<usize> {
    match tokens {
        [Token::Operator("#"), Token::Delimiter('['), ..] => Some(1 + group(&tokens[1..])),
        _ => None,
    }
}

/// Tokens of the bracketed group that these begin with, brackets included.
fn group(tokens: &[Token<'_>]) -> usize {
    let mut depth = 0usize;
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Delimiter('(' | '[' | '{') => depth += 1,
            Token::Delimiter(')' | ']' | '}') => depth = depth.saturating_sub(1),
            Token::Word(_) | Token::Literal(_) | Token::Operator(_) | Token::Delimiter(_) => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// Tokens of `pub` or `pub(…)`, 0 where there is none.
fn visibility(tokens: &[Token<'_>]) -> usize {
    match tokens {
        [Token::Word("pub"), Token::Delimiter('('), ..] => 1 + group(&tokens[1..]),
        [Token::Word("pub"), ..] => 1,
        _ => 0,
    }
}

/// Tokens of the item that these begin with; `None` where it is a statement or part of an expression.
fn item(tokens: &[Token<'_>]) -> Option<usize> {
    let rest = &tokens[visibility(tokens)..];
    // A brace ends an item, unless a semicolon does.
    let braced = match rest {
        [Token::Word("use" | "static" | "type"), ..] => false,
        [Token::Word("const"), Token::Word("fn" | "unsafe" | "extern"), ..] => true,
        [Token::Word("const"), ..] => false,
        [Token::Word("unsafe"), Token::Word("fn" | "impl" | "trait" | "extern"), ..] => true,
        [Token::Word("extern"), Token::Word("crate"), ..] => false,
        [Token::Word("mod" | "fn" | "struct" | "enum" | "impl" | "trait" | "extern"), ..] => true,
        [Token::Word(_), Token::Operator("!"), Token::Word(_), Token::Delimiter('{'), ..]
        | [Token::Word(_), Token::Operator("!"), Token::Delimiter('{'), ..] => true,
        _ => return None,
    };
    let mut at = tokens.len() - rest.len();
    while at < tokens.len() {
        match tokens[at] {
            Token::Delimiter(';') => return Some(at + 1),
            Token::Delimiter('{') if braced => return Some(at + group(&tokens[at..])),
            Token::Delimiter('(' | '[' | '{') => at += group(&tokens[at..]),
            Token::Word(_) | Token::Literal(_) | Token::Operator(_) | Token::Delimiter(_) => {
                at += 1
            }
        }
    }
    None
}

/// What the attribute `#[cfg(…)]` comes to in the device build of an arch; `None` where it is another
/// attribute or asks for something that is not known here.
fn cfg(attribute: &[Token<'_>], arch: &str) -> Option<bool> {
    match attribute {
        [_, _, Token::Word("cfg"), Token::Delimiter('('), inner @ .., _, _] => holds(inner, arch),
        _ => None,
    }
}

fn holds(predicate: &[Token<'_>], arch: &str) -> Option<bool> {
    match predicate {
        [Token::Word("test")] => Some(false),
        [Token::Word("target_arch"), Token::Operator("="), Token::Literal(value)] => {
            Some(*value == "\"nvptx64\"")
        }
        [Token::Word("cuda_arch"), Token::Operator("="), Token::Literal(value)] => {
            Some(value.trim_matches('"') == arch)
        }
        [Token::Word(name), Token::Delimiter('('), inner @ .., Token::Delimiter(')')] => {
            let parts = parts(inner).into_iter().map(|part| holds(part, arch));
            let parts: Vec<Option<bool>> = parts.collect();
            match *name {
                "not" => parts.first()?.map(|value| !value),
                "all" if parts.contains(&Some(false)) => Some(false),
                "any" if parts.contains(&Some(true)) => Some(true),
                "all" | "any" if parts.contains(&None) => None,
                "all" => Some(true),
                "any" => Some(false),
                _ => None,
            }
        }
        _ => None,
    }
}

/// What commas outside brackets part.
fn parts<'s, 't>(tokens: &'s [Token<'t>]) -> Vec<&'s [Token<'t>]> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < tokens.len() {
        match tokens[at] {
            Token::Delimiter(',') => {
                parts.push(&tokens[start..at]);
                at += 1;
                start = at;
            }
            Token::Word(_) | Token::Literal(_) | Token::Operator(_) | Token::Delimiter(_) => {
                at += group(&tokens[at..])
            }
        }
    }
    if start < tokens.len() {
        parts.push(&tokens[start..]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::super::tokens::tokens;
    use super::*;

    fn text(source: &str, arch: &str) -> String {
        let tokens = tokens(source);
        let mut text = String::new();
        for token in reached(&tokens, arch).tokens {
            token.push_to(&mut text);
            text.push(' ');
        }
        text.trim_end().to_owned()
    }

    fn modules(source: &str, arch: &str) -> Vec<String> {
        let tokens = tokens(source);
        reached(&tokens, arch).modules.iter().map(|path| path.join("/")).collect()
    }

    #[test]
    fn modules_of_the_arch_are_followed_and_others_are_not() {
        let source = r#"
            pub mod always;
            #[cfg(any(not(target_arch = "nvptx64"), cuda_arch = "sm_80"))]
            mod ampere;
            #[cfg(not(target_arch = "nvptx64"))]
            pub(crate) mod emulate;
            #[cfg(target_arch = "nvptx64")] #[allow(dead_code)] mod device;
            #[cfg(test)]
            mod tests;
            pub mod outer { mod inner; #[cfg(test)] mod tests { fn f() {} } }
        "#;
        assert_eq!(modules(source, "sm_80"), ["always", "ampere", "device", "outer/inner"]);
        assert_eq!(modules(source, "sm_90a"), ["always", "device", "outer/inner"]);
        assert!(!text(source, "sm_80").contains("tests"), "{}", text(source, "sm_80"));
    }

    #[test]
    fn items_that_are_not_compiled_are_left_out() {
        for gone in [
            "use a::{b, c};",
            "pub use a::{b, c};",
            "const X: [u8; 2] = { [1, 2] };",
            "const fn f() -> u8 { 1 }",
            "pub(crate) unsafe fn f(x: [u8; 2]) -> u8 { if x { 1 } else { 2 } }",
            "struct S;",
            "struct S(u8);",
            "struct S { x: u8 }",
            "impl S { fn f(&self) { g(|| {}) } }",
            "macro_rules! m { () => {}; }",
            "registry! { a, b }",
            "static X: S = S { x: 1 };",
            "mod tests { #[test] fn f() {} }",
            "trait T { fn f(); }",
            "extern crate std;",
        ] {
            for attribute in ["#[cfg(test)]", "#[inline] #[cfg(all(test, feature = \"x\"))]"] {
                let source = format!("a; {attribute} {gone} b;");
                assert_eq!(text(&source, "sm_70"), "a ; b ;", "{source}");
            }
            let kept = format!("a; #[cfg(not(test))] {gone} b;");
            assert!(text(&kept, "sm_70").len() > gone.len(), "{kept}");
        }
    }

    /// Where an item's end is not sure, more is kept than needed.
    #[test]
    fn what_is_no_item_is_kept() {
        for kept in [
            "let x = 1;",
            "{ f(); }",
            "unsafe { f() }",
            "x: u32,",
            "f(1)",
            "A => 1,",
            "m!(x) + 1",
            "return;",
        ] {
            let source = format!("fn f ( ) {{ #[cfg(test)] {kept} }}");
            let found = text(&source, "sm_70").replace(' ', "");
            assert_eq!(found, source.replace(' ', ""), "{kept}");
        }
    }

    #[test]
    fn predicates_come_to_what_the_compiler_makes_of_them() {
        let value = |predicate: &str| holds(&tokens(predicate), "sm_80");
        for (predicate, expected) in [
            ("test", Some(false)),
            ("not(test)", Some(true)),
            ("target_arch = \"nvptx64\"", Some(true)),
            ("target_arch = \"x86_64\"", Some(false)),
            ("cuda_arch = \"sm_80\"", Some(true)),
            ("cuda_arch = \"sm_90a\"", Some(false)),
            ("any(not(target_arch = \"nvptx64\"), cuda_arch = \"sm_90a\")", Some(false)),
            ("any(cuda_arch = \"sm_70\", cuda_arch = \"sm_80\",)", Some(true)),
            ("all(test, debug_assertions)", Some(false)),
            ("all(not(test), debug_assertions)", None),
            ("any(test, unix)", None),
            ("not(unix)", None),
            ("all()", Some(true)),
            ("any()", Some(false)),
        ] {
            assert_eq!(value(predicate), expected, "{predicate}");
        }
    }
}
