//! Decides how a name is spelt in a path: ASCII small letters, digits, hyphens, and `_` for anything else.
//!
//! What cannot be spelt, or does not fit, leaves a short hash, so that names which differ there stay different.
//! Never gives an empty name, a name of dots, or one that Windows keeps for a device.

use crate::hash;

/// The most bytes of a slug.
const LONGEST: usize = 60;

/// A name that is safe on every file system, of at most 60 bytes; a slug is its own slug.
pub fn slug(name: &str) -> String {
    slug_within(name, LONGEST)
}

/// Endings of texts, which a file of the user's keeps; any other is part of the name.
const ENDINGS: [&str; 11] = ["md", "txt", "json", "csv", "tsv", "yaml", "yml", "toml", "xml", "sql", "html"];

/// The name of a file the user gave, with its ending where that is one of a text, else with that of Markdown.
pub(super) fn file_name(name: &str) -> String {
    let parts = name.rsplit_once('.');
    let known = parts.and_then(|(stem, ending)| {
        let ending = ENDINGS.iter().find(|known| known.eq_ignore_ascii_case(ending.trim_end()))?;
        Some(format!("{}.{ending}", slug(stem)))
    });
    known.unwrap_or_else(|| format!("{}.md", slug(name)))
}

/// The last eight hex digits of an id, with zeros before them where it has fewer.
pub fn short(id: &str) -> String {
    let mut digits: Vec<char> = id.chars().rev().filter(char::is_ascii_hexdigit).take(8).collect();
    digits.reverse();
    format!("{:0>8}", digits.into_iter().collect::<String>().to_ascii_lowercase())
}

/// As [`slug`], of at most `limit` bytes, which must be more than a hash takes.
pub(super) fn slug_within(name: &str, limit: usize) -> String {
    let mut out = String::with_capacity(limit);
    let mut unspelt = false;
    for c in name.chars() {
        match c {
            'a'..='z' | '0'..='9' => out.push(c),
            'A'..='Z' => out.push(c.to_ascii_lowercase()),
            '-' if !out.is_empty() && !out.ends_with(['_', '-']) => out.push('-'),
            // The marks of letters that are written in two parts.
            '\u{300}'..='\u{36f}' => {}
            _ => match latin(c) {
                Some(letters) => out.push_str(letters),
                None => {
                    unspelt |= c.is_alphanumeric();
                    if !out.is_empty() && !out.ends_with(['_', '-']) {
                        out.push('_');
                    }
                }
            },
        }
        if out.len() > limit {
            break;
        }
    }
    let kept = out.trim_end_matches(['_', '-']).len();
    let cut = out.len() > limit;
    out.truncate(kept.min(limit));
    if cut || unspelt || out.is_empty() {
        out.truncate(limit - "_01234567".len());
        out.truncate(out.trim_end_matches(['_', '-']).len());
        let head = if out.is_empty() { "u" } else { &out };
        return format!("{head}_{:08x}", hash::fnv1a_32(name.as_bytes()));
    }
    if is_device(&out) { format!("x_{out}") } else { out }
}

fn is_device(name: &str) -> bool {
    let numbered = name.strip_prefix("com").or_else(|| name.strip_prefix("lpt"));
    matches!(name, "con" | "prn" | "aux" | "nul") || numbered.is_some_and(|n| matches!(n.as_bytes(), [b'0'..=b'9']))
}

/// The spelling of the letters of European languages.
fn latin(c: char) -> Option<&'static str> {
    Some(match c {
        'À'..='Ã' | 'Å' | 'à'..='ã' | 'å' | 'Ā'..='ą' => "a",
        'Ä' | 'ä' | 'Æ' | 'æ' => "ae",
        'Ç' | 'ç' | 'Ć'..='č' => "c",
        'Ð' | 'ð' | 'Ď'..='đ' => "d",
        'È'..='Ë' | 'è'..='ë' | 'Ē'..='ě' => "e",
        'Ĝ'..='ģ' => "g",
        'Ĥ'..='ħ' => "h",
        'Ì'..='Ï' | 'ì'..='ï' | 'Ĩ'..='ı' => "i",
        'Ĵ' | 'ĵ' => "j",
        'Ķ' | 'ķ' => "k",
        'Ĺ'..='ł' => "l",
        'Ñ' | 'ñ' | 'Ń'..='ň' => "n",
        'Ò'..='Õ' | 'Ø' | 'ò'..='õ' | 'ø' | 'Ō'..='ő' => "o",
        'Ö' | 'ö' | 'Œ' | 'œ' => "oe",
        'Ŕ'..='ř' => "r",
        'Ś'..='š' | 'Ș' | 'ș' => "s",
        'ß' | 'ẞ' => "ss",
        'Ţ'..='ŧ' | 'Ț' | 'ț' => "t",
        'Þ' | 'þ' => "th",
        'Ù'..='Û' | 'ù'..='û' | 'Ũ'..='ų' => "u",
        'Ü' | 'ü' => "ue",
        'Ŵ' | 'ŵ' => "w",
        'Ý' | 'ý' | 'ÿ' | 'Ŷ'..='Ÿ' => "y",
        'Ź'..='ž' => "z",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn common_names_stay_readable() {
        for (name, expected) in [
            ("Sunday Library", "sunday_library"),
            ("  gpt-4.1 / mini ", "gpt-4_1_mini"),
            ("Größe & Maß", "groesse_mass"),
            ("Łódź, Řím, Ærø", "lodz_rim_aero"),
            ("e\u{301}te\u{301}", "ete"),
            ("../../etc/passwd", "etc_passwd"),
            ("a -- b", "a_b"),
        ] {
            assert_eq!(slug(name), expected);
        }
    }

    #[test]
    fn a_file_keeps_the_ending_of_a_text() {
        for (name, expected) in [
            ("Devices", "devices.md"),
            ("Schema v1.2.SQL", "schema_v1_2.sql"),
            ("notes.md", "notes.md"),
            ("run.exe", "run_exe.md"),
            ("nul.txt", "x_nul.txt"),
            ("../../etc/passwd", "etc_passwd.md"),
        ] {
            assert_eq!(file_name(name), expected);
        }
        assert!(file_name(".md").starts_with("u_") && file_name(".md").ends_with(".md"));
    }

    #[test]
    fn device_names_and_dots_are_never_given() {
        for name in ["con", "NUL", "com1", "Lpt9", "aux."] {
            assert!(slug(name).starts_with("x_"), "{name}");
        }
        for name in ["", ".", "..", "///", "\u{0}"] {
            assert!(slug(name).starts_with("u_"), "{name:?}");
        }
    }

    #[test]
    fn what_cannot_be_spelt_stays_distinct() {
        assert_ne!(slug("проект"), slug("задача"));
        assert_ne!(slug("計画 7"), slug("目的 7"));
        assert!(slug("計画 7").starts_with("7_"));
        let long = "word ".repeat(40);
        assert_ne!(slug(&format!("{long}one")), slug(&format!("{long}two")));
    }

    #[test]
    fn an_id_is_known_by_its_last_eight_digits() {
        assert_eq!(short("018f2a3b-0000-7000-8000-00001234ABCD"), "1234abcd");
        assert_eq!(short("../x7"), "00000007");
        assert_eq!(short(""), "00000000");
    }

    proptest! {
        #[test]
        fn a_slug_is_safe_short_and_its_own_slug(name in any::<String>(), long in "[A-Za-zéß .-]{0,200}") {
            for name in [name, long] {
                let once = slug(&name);
                prop_assert!(!once.is_empty() && once.len() <= LONGEST);
                prop_assert!(once.bytes().all(|b| matches!(b, b'a'..=b'z' | b'0'..=b'9' | b'_' | b'-')));
                prop_assert!(!is_device(&once) && !once.starts_with(['_', '-']) && !once.ends_with(['_', '-']));
                prop_assert_eq!(slug(&once), once);
            }
        }
    }
}
