//! Reading the machine's own apt sources, to find the Debian mirror that it already uses.

use std::fs;
use std::path::{Path, PathBuf};

/// A mirror of the Debian archive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mirror {
    /// Its address, without a slash at the end.
    pub(crate) uri: String,
    /// The keyring that the machine checks it with, where its source names one.
    pub(crate) signed_by: Option<PathBuf>,
}

/// One source of packages, however it was written.
#[derive(Debug, PartialEq, Eq)]
struct Source {
    uris: Vec<String>,
    suites: Vec<String>,
    components: Vec<String>,
    signed_by: Option<PathBuf>,
}

/// The Debian mirrors in `/etc/apt`; empty on other systems.
pub(crate) fn mirrors_of_machine() -> Vec<Mirror> {
    let etc = Path::new("/etc/apt");
    let mut files = vec![etc.join("sources.list")];
    if let Ok(parts) = fs::read_dir(etc.join("sources.list.d")) {
        files.extend(parts.filter_map(|entry| Some(entry.ok()?.path())));
    }
    files.sort();
    let sources = files.iter().flat_map(|path| {
        let text = fs::read_to_string(path).unwrap_or_default();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("list") => parse_one_line(&text),
            Some("sources") => parse_deb822(&text),
            _ => Vec::new(),
        }
    });
    mirrors(sources)
}

/// The sources that are the Debian archive itself: its mirrors all end in `/debian`, and neither
/// security updates nor other vendors' archives carry the development suites.
fn mirrors(sources: impl IntoIterator<Item = Source>) -> Vec<Mirror> {
    let mut mirrors: Vec<Mirror> = Vec::new();
    for source in sources {
        let whole_archive = source.components.iter().any(|component| component == "main")
            && !source.suites.iter().any(|suite| suite.contains("security"));
        for uri in source.uris {
            let uri = uri.trim_end_matches('/');
            let fetchable = ["http://", "https://", "file:"].iter().any(|s| uri.starts_with(s));
            let known = mirrors.iter().any(|mirror| mirror.uri == uri);
            if whole_archive && fetchable && uri.ends_with("/debian") && !known {
                let signed_by = source.signed_by.clone();
                mirrors.push(Mirror { uri: uri.to_owned(), signed_by });
            }
        }
    }
    mirrors
}

/// The one-line format: `deb [option=value …] uri suite component…`.
fn parse_one_line(text: &str) -> Vec<Source> {
    text.lines()
        .filter_map(|line| {
            let line = line.split('#').next()?.trim();
            let rest = line.strip_prefix("deb")?;
            if !rest.starts_with([' ', '\t', '[']) {
                return None; // deb-src
            }
            let rest = rest.trim_start();
            let (options, rest) = match rest.strip_prefix('[') {
                Some(rest) => rest.split_once(']')?,
                None => ("", rest),
            };
            let signed_by = options
                .split_whitespace()
                .find_map(|option| keyring(option.strip_prefix("signed-by=")?));
            let mut words = rest.split_whitespace().map(str::to_owned);
            let uris = vec![words.next()?];
            let suites = vec![words.next()?];
            Some(Source { uris, suites, components: words.collect(), signed_by })
        })
        .collect()
}

/// The deb822 format: paragraphs of fields, a line that begins with a space continues its field.
fn parse_deb822(text: &str) -> Vec<Source> {
    let lines: Vec<&str> = text.lines().filter(|line| !line.starts_with('#')).collect();
    lines.split(|line| line.trim().is_empty()).filter_map(parse_paragraph).collect()
}

fn parse_paragraph(lines: &[&str]) -> Option<Source> {
    let mut fields: Vec<(String, String)> = Vec::new();
    for line in lines {
        if line.starts_with([' ', '\t']) {
            let (_, value) = fields.last_mut()?;
            value.push('\n');
            value.push_str(line.trim());
        } else {
            let (name, value) = line.split_once(':')?;
            fields.push((name.trim().to_ascii_lowercase(), value.trim().to_owned()));
        }
    }
    let words = |name: &str| -> Vec<String> {
        let value = fields.iter().find(|(field, _)| field == name);
        value.map_or(Vec::new(), |(_, v)| v.split_whitespace().map(str::to_owned).collect())
    };
    if words("enabled").first().is_some_and(|value| value.eq_ignore_ascii_case("no"))
        || !words("types").iter().any(|kind| kind == "deb")
    {
        return None;
    }
    // The field may also hold the key itself, which is no path.
    let signed_by = words("signed-by").first().and_then(|value| keyring(value));
    Some(Source {
        uris: words("uris"),
        suites: words("suites"),
        components: words("components"),
        signed_by,
    })
}

fn keyring(value: &str) -> Option<PathBuf> {
    let first = value.split(',').next()?;
    first.starts_with('/').then(|| first.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEB822: &str = "\
Types: deb
# a comment within
URIs: http://mirror.example/debian/
Suites: bookworm bookworm-updates
Components: main
 contrib
Signed-By: /usr/share/keyrings/debian-archive-keyring.gpg

Types: deb
URIs: http://mirror.example/debian-security
Suites: bookworm-security
Components: main

Types: deb-src
URIs: http://sources.example/debian
Suites: bookworm
Components: main

Enabled: no
Types: deb
URIs: http://off.example/debian
Suites: bookworm
Components: main

Types: deb
URIs: https://vendor.example/node_20.x
Suites: nodistro
Components: main
Signed-By:
 -----BEGIN PGP PUBLIC KEY BLOCK-----
 .
";

    #[test]
    fn deb822_sources_are_read() {
        let sources = parse_deb822(DEB822);
        assert_eq!(sources.len(), 3);
        assert_eq!(sources[0].suites, ["bookworm", "bookworm-updates"]);
        assert_eq!(sources[0].components, ["main", "contrib"]);
        assert_eq!(sources[2].signed_by, None);
    }

    #[test]
    fn only_the_debian_archive_is_a_mirror() {
        let expected = Mirror {
            uri: "http://mirror.example/debian".into(),
            signed_by: Some("/usr/share/keyrings/debian-archive-keyring.gpg".into()),
        };
        assert_eq!(mirrors(parse_deb822(DEB822)), [expected]);
    }

    #[test]
    fn one_line_sources_are_read() {
        let text = "\
# deb http://old.example/debian bookworm main
deb-src http://mirror.example/debian bookworm main
deb http://mirror.example/debian bookworm main contrib # trailing
deb [arch=amd64 signed-by=/k.gpg,/l.gpg] https://other.example/x/debian/ trixie main
deb http://mirror.example/debian bookworm-updates main
deb http://mirror.example/debian-security bookworm-security main
deb cdrom:[Debian]/debian bookworm main
deb https://vendor.example/apt stable main
deb http://broken.example/debian
";
        let found = mirrors(parse_one_line(text));
        let uris: Vec<&str> = found.iter().map(|mirror| mirror.uri.as_str()).collect();
        assert_eq!(uris, ["http://mirror.example/debian", "https://other.example/x/debian"]);
        assert_eq!(found[1].signed_by, Some("/k.gpg".into()));
    }

    #[test]
    fn nonsense_gives_nothing() {
        assert!(parse_deb822(" continued from nowhere\n\nno colon\n").is_empty());
        assert!(parse_one_line("deb\ndeb [x\ndeb [x] \n").is_empty());
    }
}
