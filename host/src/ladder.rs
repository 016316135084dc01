//! The pages of the ladder: `docs/ladder.md`, which is their one place.

use std::sync::LazyLock;

/// The document, as it is in the tree.
pub const TEXT: &str = include_str!("../../docs/ladder.md");

/// The page of one implementation, or of several that differ in a number.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Page {
    /// Names in backquotes before the colon of its heading.
    pub ids: Vec<&'static str>,
    /// What its heading says of them.
    pub title: &'static str,
    /// The text, without the heading and without the line that names the source.
    pub body: String,
    /// The source file, by its path from the workspace's root.
    pub source: &'static str,
}

static PAGES: LazyLock<Vec<Page>> =
    LazyLock::new(|| TEXT.split("\n## ").skip(1).filter_map(page).collect());

/// Every page, in the order of the document.
#[must_use]
pub fn pages() -> &'static [Page] {
    &PAGES
}

/// The page of an implementation.
#[must_use]
pub fn find(id: &str) -> Option<&'static Page> {
    pages().iter().find(|page| page.ids.contains(&id))
}

/// Reads a section; one whose heading names no implementation is no page.
fn page(section: &'static str) -> Option<Page> {
    let (heading, text) = section.split_once('\n')?;
    let (names, title) = heading.split_once(": ")?;
    let ids: Vec<&str> = names
        .split(", ")
        .map(|name| name.strip_prefix('`')?.strip_suffix('`'))
        .collect::<Option<_>>()?;
    let source = text.lines().find(|line| line.starts_with(SOURCE))?;
    let path = source.split_once("](../")?.1.strip_suffix(')')?;
    let body: Vec<&str> = text.lines().filter(|line| !line.starts_with(SOURCE)).collect();
    Some(Page { ids, title, body: body.join("\n").trim().to_owned(), source: path })
}

const SOURCE: &str = "Source: [";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::registry::{self, Implementation};

    /// What to add for an implementation without a page.
    fn missing(one: &Implementation, before: &str) -> String {
        let (id, about) = (one.id(), one.about());
        let folder = if one.on_gpu() { "kernels-gpu/src" } else { "host/src/cpu" };
        format!(
            "docs/ladder.md has no section for `{id}`; add, after that of `{before}`:\n\n\
             ## `{id}`: {about}\n\nThe idea in a few sentences, and a drawing where one helps.\n\n\
             Source: [{id}.rs](../{folder}/{id}.rs)\n"
        )
    }

    #[test]
    fn every_implementation_has_a_page_in_the_order_of_the_registry() {
        let mut faults = Vec::new();
        let mut before = "the introduction";
        for one in registry::all() {
            if find(one.id()).is_none() {
                faults.push(missing(&one, before));
            }
            before = one.id();
        }
        assert!(faults.is_empty(), "\n{}", faults.join("\n"));
        let named: Vec<&str> = pages().iter().flat_map(|page| page.ids.iter().copied()).collect();
        let registered: Vec<&str> = registry::all().map(|one| one.id()).collect();
        assert_eq!(named, registered, "docs/ladder.md is not in the order of the registry");
    }

    #[test]
    fn a_missing_page_says_what_to_add() {
        let one = registry::find("naive").unwrap();
        let said = missing(&one, "single_block");
        assert!(
            said.contains("## `naive`: ") && said.contains("../kernels-gpu/src/naive.rs"),
            "{said}"
        );
        let section = said.split_once("## ").unwrap().1.to_owned();
        let page = page(section.leak()).expect("what is proposed is a page");
        assert_eq!((page.ids, page.source), (vec!["naive"], "kernels-gpu/src/naive.rs"));
    }

    #[test]
    fn every_section_is_a_page_and_explains_something() {
        let headings = TEXT.lines().filter(|line| line.starts_with("## ")).count();
        assert_eq!(headings, pages().len(), "a section lacks names, a title or its source");
        for page in pages() {
            assert!(page.body.len() > 150, "{:?} says little", page.ids);
        }
    }
}
