//! Every setting that a user or a superuser can change, at its extremes: what an engine that lives in other people's
//! databases must withstand.

use crate::column;
use postgres::Client;

/// A setting, a value at an extreme, and the value that the server has.
#[derive(Clone)]
pub struct Extreme {
    pub name: String,
    pub value: String,
    pub usual: String,
}

impl std::fmt::Debug for Extreme {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} = {}", self.name, self.value)
    }
}

/// Values that have no smallest or largest: what a hostile or careless administrator would choose.
const CHOSEN: [(&str, &str); 12] = [
    ("search_path", "pg_temp"),
    ("DateStyle", "German"),
    ("IntervalStyle", "sql_standard"),
    ("TimeZone", "Pacific/Kiritimati"),
    ("lc_numeric", "C"),
    ("lc_monetary", "C"),
    ("client_encoding", "LATIN1"),
    ("application_name", "nobody"),
    ("backtrace_functions", "errfinish"),
    ("wal_consistency_checking", "all"),
    ("temp_tablespaces", ""),
    ("default_text_search_config", "pg_catalog.simple"),
];

/// All extremes of all settings but those of the extension itself and those of one transaction, in groups in which no
/// setting occurs twice.
pub fn extremes(client: &mut Client, size: usize) -> Vec<Vec<Extreme>> {
    let chosen = CHOSEN.map(|(name, value)| format!("('{name}', '{value}')")).join(", ");
    let query = format!(
        "select format(E'%s\\t%s\\t%s', s.name, e.value, s.setting) from pg_settings s \
         left join (values {chosen}) as c(name, value) on lower(c.name) = lower(s.name) \
         cross join lateral unnest(case \
             when c.value is not null then array[c.value] \
             when s.vartype = 'bool' then array[case s.setting when 'on' then 'off' else 'on' end] \
             when s.name like '%\\_timeout' then array['1', s.max_val] \
             when s.vartype in ('integer', 'real') then array[s.min_val, s.max_val] \
             when s.vartype = 'enum' then array[s.enumvals[1], s.enumvals[cardinality(s.enumvals)]] end) \
             with ordinality as e(value, n) \
         where s.context in ('user', 'superuser') and s.name not like 'dialectic.%' \
           and s.name not in ('transaction_isolation', 'transaction_read_only', 'transaction_deferrable') \
           and e.value <> s.setting \
         order by e.n, s.name"
    );
    let all: Vec<Extreme> = column::<String>(client, &query, &[])
        .iter()
        .map(|line| {
            let mut parts = line.split('\t').map(str::to_owned);
            let mut part = || parts.next().expect("a name and two values");
            Extreme { name: part(), value: part(), usual: part() }
        })
        .collect();
    assert!(all.len() > 200, "only {} extremes", all.len());
    // First extremes come before second ones, so a group has both of one setting only across that border.
    let (mut groups, mut group): (Vec<Vec<Extreme>>, Vec<Extreme>) = (Vec::new(), Vec::new());
    for extreme in all {
        if group.len() == size || group.iter().any(|other| other.name == extreme.name) {
            groups.push(std::mem::take(&mut group));
        }
        group.push(extreme);
    }
    groups.push(group);
    groups
}
