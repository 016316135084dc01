//! Numbers of things in words.

/// `1 thread`, `2 threads`.
pub(crate) fn counted(count: usize, thing: &str) -> String {
    if count == 1 { format!("1 {thing}") } else { format!("{count} {thing}s") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_thing_is_no_things() {
        let said = [0, 1, 2].map(|count| counted(count, "core"));
        assert_eq!(said, ["0 cores", "1 core", "2 cores"]);
    }
}
