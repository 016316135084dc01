//! The lines of tables on a terminal, as its locale can show them.

use std::env;

use comfy_table::TableStyle;
use comfy_table::presets::{ASCII_FULL_CONDENSED, UTF8_FULL_CONDENSED};

/// The lines for this user's locale.
pub(crate) fn borders() -> TableStyle {
    let set = |name| env::var(name).ok().filter(|value| !value.is_empty());
    // In this order the first that is set decides.
    of_locale(["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set).as_deref())
}

/// Where nothing is set, as in many containers, terminals are UTF-8 all the same.
fn of_locale(locale: Option<&str>) -> TableStyle {
    let utf8 = |locale: &str| {
        let locale = locale.to_ascii_lowercase();
        locale.contains("utf-8") || locale.contains("utf8")
    };
    if locale.is_none_or(utf8) { UTF8_FULL_CONDENSED } else { ASCII_FULL_CONDENSED }
}

#[cfg(test)]
mod tests {
    use comfy_table::Table;

    use super::*;

    #[test]
    fn only_a_locale_of_utf8_has_lines() {
        let shown = |locale| {
            let mut table = Table::new();
            table.load_style(of_locale(locale)).force_no_tty().add_row(["a", "b"]);
            table.to_string()
        };
        for locale in [None, Some("en_US.UTF-8"), Some("C.utf8"), Some("de_DE.utf-8@euro")] {
            assert!(shown(locale).contains('│'), "{locale:?}");
        }
        for locale in [Some("C"), Some("POSIX"), Some("en_US.ISO-8859-1"), Some("de_DE")] {
            assert!(shown(locale).is_ascii(), "{locale:?}");
        }
    }
}
