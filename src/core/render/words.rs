//! Decides how a key is said to a person: `primary_kpis` is "Primary KPIs".
//!
//! Never changes a name that a person wrote: whatever has a space or begins with a capital letter stays.

/// Words that are written in their own way.
const WRITTEN: [(&str, &str); 30] = [
    ("api", "API"),
    ("apis", "APIs"),
    ("cd", "CD"),
    ("ci", "CI"),
    ("cpu", "CPU"),
    ("css", "CSS"),
    ("db", "DB"),
    ("deps", "Depends on"),
    ("gdpr", "GDPR"),
    ("html", "HTML"),
    ("http", "HTTP"),
    ("iac", "IaC"),
    ("id", "ID"),
    ("ids", "IDs"),
    ("json", "JSON"),
    ("kpi", "KPI"),
    ("kpis", "KPIs"),
    ("llm", "LLM"),
    ("mvp", "MVP"),
    ("orm", "ORM"),
    ("rls", "Row-level security"),
    ("sdk", "SDK"),
    ("sla", "SLA"),
    ("slo", "SLO"),
    ("sql", "SQL"),
    ("ui", "UI"),
    ("url", "URL"),
    ("ux", "UX"),
    ("uuid", "UUID"),
    ("yaml", "YAML"),
];

/// A key as a heading.
pub fn title(key: &str) -> String {
    let key = key.trim();
    if key.contains(char::is_whitespace) || key.starts_with(char::is_uppercase) {
        return key.to_owned();
    }
    let mut spaced = String::with_capacity(key.len() + 4);
    let mut small = false;
    for c in key.chars() {
        if c == '_' || c == '-' {
            spaced.push(' ');
        } else if small && c.is_uppercase() {
            spaced.push(' ');
            spaced.extend(c.to_lowercase());
        } else {
            spaced.push(c);
        }
        small = c.is_lowercase();
    }
    let words = spaced.split_whitespace().enumerate().map(|(at, word)| {
        let own = if word == "&" { Some("and") } else { WRITTEN.iter().find(|(w, _)| *w == word).map(|(_, own)| *own) };
        match (own, at) {
            (Some(own), _) => own.to_owned(),
            (None, 0) => capital(word),
            (None, _) => word.to_owned(),
        }
    });
    words.collect::<Vec<_>>().join(" ").replace("CI CD", "CI/CD").replace("Non functional", "Non-functional")
}

fn capital(word: &str) -> String {
    let mut letters = word.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
