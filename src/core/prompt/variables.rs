//! Decides which variables of a template nobody will give a value, before it is ever rendered.
//!
//! Includes are written out first, so a variable that the including template sets or loops over is known in the
//! included one. What a template chooses while it is rendered (a name in a variable, an import, a missing include) is
//! not followed. Never renders a template.

use super::{environment, nesting};
use minijinja::Environment;
use std::collections::{BTreeMap, BTreeSet};

/// Includes within includes that are written out; rendering stops at ten.
const NESTED: usize = 10;
/// The longest text with its includes; a template that is longer is left unchecked.
const WRITTEN_OUT: usize = 4 << 20;

/// What a template may be used for, which decides the variables that it is given.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UsedAs {
    /// The seed prompt of a stage.
    Seed,
    /// The prompt of a step, and that of its combine jobs.
    Step,
    /// The directive that asks for the rest of an answer.
    Continue,
    /// The directive that asks for missing keys.
    Repair,
}

const SEED: [&str; 6] = ["domain", "iteration", "original_user_request", "overlay", "process", "stage"];
const STEP: [&str; 13] = [
    "content_keys",
    "content_to_include",
    "documents",
    "domain",
    "header_context",
    "iteration",
    "model",
    "original_user_request",
    "overlay",
    "process",
    "stage",
    "step",
    "target_words",
];
const CONTINUE: [&str; 8] = ["document_key", "is_closed", "is_json", "missing", "open_at", "open_list", "tail", "why"];
const REPAIR: [&str; 2] = ["missing", "shape"];
/// The fields of variables that always have the same.
const FIELDS: [(&str, &[&str]); 2] =
    [("stage", &["slug", "display_name"]), ("step", &["key", "name", "output_type", "document_key"])];

impl UsedAs {
    /// By its name in the database.
    pub fn of(word: &str) -> Option<Self> {
        match word {
            "seed" => Some(Self::Seed),
            "step" => Some(Self::Step),
            "continue" => Some(Self::Continue),
            "repair" => Some(Self::Repair),
            _ => None,
        }
    }

    /// The variables that such a template is given.
    pub fn variables(self) -> &'static [&'static str] {
        match self {
            Self::Seed => &SEED,
            Self::Step => &STEP,
            Self::Continue => &CONTINUE,
            Self::Repair => &REPAIR,
        }
    }

    /// Whether a variable, or a field of one as in `stage.slug`, has a value.
    fn knows(self, path: &str) -> bool {
        let mut parts = path.split('.');
        let (name, field) = (parts.next().unwrap_or_default(), parts.next());
        let fields = FIELDS.iter().find(|(of, _)| *of == name && matches!(self, Self::Seed | Self::Step));
        let has_field = fields.zip(field).is_none_or(|((_, fields), field)| fields.contains(&field));
        self.variables().contains(&name) && has_field
    }
}

/// A variable that nobody gives a value.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct UnknownVariable {
    /// The template that uses it, which may be an included one.
    pub template: String,
    /// The variable, as in `stage.slug`.
    pub variable: String,
}

/// The unknown variables of a template and of all that it includes, by template and name.
pub fn unknown_variables(bodies: &BTreeMap<String, String>, name: &str, used_as: UsedAs) -> Vec<UnknownVariable> {
    let Some(body) = bodies.get(name) else { return Vec::new() };
    let mut whole = String::new();
    let mut used = BTreeSet::from([name.to_owned()]);
    write_out(bodies, body, &mut vec![name], &mut whole, &mut used);
    let env = environment();
    let unknown = undeclared(&env, &whole).into_iter().filter(|path| !used_as.knows(path));
    let found = unknown.map(|variable| {
        let uses = |other: &&String| bodies.get(*other).is_some_and(|body| undeclared(&env, body).contains(&variable));
        UnknownVariable { template: used.iter().find(uses).map_or(name, String::as_str).to_owned(), variable }
    });
    let found: BTreeSet<UnknownVariable> = found.collect();
    found.into_iter().collect()
}

/// The variables that a text looks up and neither sets nor loops over, with their fields; nothing where it does not
/// parse.
fn undeclared(env: &Environment<'_>, body: &str) -> BTreeSet<String> {
    if nesting::checked("", body).is_err() {
        return BTreeSet::new();
    }
    let Ok(template) = env.template_from_str(body) else { return BTreeSet::new() };
    let mut known: BTreeSet<&str> = env.globals().map(|(name, _)| name).collect();
    // The engine keeps what is set within a condition; its own analysis forgets it there.
    known.extend(tags(body).filter_map(|(_, tag, _)| tag.strip_prefix("set ")).flat_map(assigned));
    let is_known = |path: &String| path.split('.').next().is_some_and(|name| known.contains(name));
    template.undeclared_variables(true).into_iter().filter(|path| !is_known(path)).collect()
}

/// The names on the left side of an assignment.
fn assigned(set: &str) -> impl Iterator<Item = &str> {
    set.split(['=', '|']).next().unwrap_or_default().split(',').map(|name| name.trim_matches(['(', ')', ' ']))
}

/// Appends a text with its includes in their places.
fn write_out<'a>(
    bodies: &'a BTreeMap<String, String>,
    body: &'a str,
    path: &mut Vec<&'a str>,
    whole: &mut String,
    used: &mut BTreeSet<String>,
) {
    let mut written = 0;
    for (start, tag, end) in tags(body) {
        let Some((name, included)) = included(tag).and_then(|name| bodies.get_key_value(name)) else { continue };
        whole.push_str(&body[written..start]);
        written = end;
        used.insert(name.clone());
        if !path.contains(&name.as_str()) && path.len() < NESTED && whole.len() < WRITTEN_OUT {
            path.push(name);
            write_out(bodies, included, path, whole, used);
            path.pop();
        }
    }
    whole.push_str(&body[written..]);
}

/// The template that a tag includes, where it says so in words.
fn included(tag: &str) -> Option<&str> {
    let rest = tag.strip_prefix("include")?.trim_start();
    let quote = rest.chars().next().filter(|quote| ['"', '\''].contains(quote))?;
    rest[1..].split_once(quote).map(|(name, _)| name)
}

/// The tags of a text: where each begins, what stands in it, where it ends.
fn tags(body: &str) -> impl Iterator<Item = (usize, &str, usize)> {
    let mut from = 0;
    std::iter::from_fn(move || {
        let start = from + body[from..].find("{%")?;
        let end = start + body[start..].find("%}")? + 2;
        from = end;
        Some((start, body[start + 2..end - 2].trim_matches(['-', '+', ' ', '\t', '\n', '\r']), end))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn unknown(templates: &[(&str, &str)], used_as: UsedAs) -> Vec<String> {
        let bodies = templates.iter().map(|(name, body)| ((*name).to_owned(), (*body).to_owned())).collect();
        let found = unknown_variables(&bodies, templates[0].0, used_as);
        found.into_iter().map(|unknown| format!("{}: {}", unknown.template, unknown.variable)).collect()
    }

    #[test]
    fn unknown_variables_are_named_with_their_template() {
        let of = |body| unknown(&[("t", body)], UsedAs::Step);
        assert_eq!(of("{{ modle }} {% if foo is defined %}{{ foo }}{% endif %}"), ["t: foo", "t: modle"]);
        assert_eq!(of("{{ stage.nmae }} {{ step.key }} {{ overlay.anything }}"), ["t: stage.nmae"]);
        let parts = [("t", "{% include \"part\" %}"), ("part", "{{ nobody }} {{ model }}")];
        assert_eq!(unknown(&parts, UsedAs::Step), ["part: nobody"]);
    }

    #[test]
    fn what_a_template_sets_itself_is_known() {
        for body in [
            "{% for document in documents if document.type %}{{ document.content }}{{ loop.index }}{% endfor %}",
            "{% if model %}{% set x = 1 %}{% else %}{%- set x = 2 -%}{% endif %}{{ x }}",
            "{% set a, b = [1, 2] %}{{ a }}{{ b }}{{ range(3) }}{% set c %}text{% endset %}{{ c }}",
            "{% macro m(x) %}{{ x }}{% endmacro %}{{ m(1) }}{% with y = 1 %}{{ y }}{% endwith %}",
            "{% block system %}{{ super is undefined }}{% endblock %}{# {{ comment }} #}{% raw %}{{ raw }}{% endraw %}",
        ] {
            assert_eq!(unknown(&[("t", body)], UsedAs::Step), Vec::<String>::new(), "{body}");
        }
    }

    #[test]
    fn an_included_template_knows_what_the_including_one_sets() {
        let parts = [
            (
                "t",
                "{% for document in documents %}{% include 'part' %}{% endfor %}{% include \"gone\" ignore missing %}",
            ),
            ("part", "{{ document.content }}{% include \"t\" %}"),
        ];
        assert_eq!(unknown(&parts, UsedAs::Step), Vec::<String>::new());
        assert_eq!(unknown(&parts, UsedAs::Seed), ["t: documents"]);
    }

    #[test]
    fn a_text_that_does_not_parse_has_no_unknown_variables() {
        for body in ["{{ x", "{% include \"", "{%", "{% include %}", "%}{% set", "{% set %}", "{% include '' %}"] {
            assert_eq!(unknown(&[("t", body)], UsedAs::Step), Vec::<String>::new(), "{body}");
        }
        assert_eq!(unknown_variables(&BTreeMap::new(), "t", UsedAs::Seed), []);
    }

    #[test]
    fn every_use_has_its_own_variables() {
        assert_eq!(unknown(&[("t", "{{ why }}{{ tail }}{{ shape }}")], UsedAs::Continue), ["t: shape"]);
        assert_eq!(unknown(&[("t", "{{ missing }}{{ shape }}{{ why }}")], UsedAs::Repair), ["t: why"]);
        let words = ["seed", "step", "continue", "repair"].map(UsedAs::of);
        assert_eq!(words, [UsedAs::Seed, UsedAs::Step, UsedAs::Continue, UsedAs::Repair].map(Some));
        assert_eq!(UsedAs::of("no"), None);
    }
}
