//! Decides which items of a list come again, and which are new.
//!
//! First by place: the list that comes may begin with the last items that were there, with the interrupted one, or with
//! all of them. Then by identifying fields. The rest is new and goes behind. Of lists inside an item that came again,
//! those that were complete grow only by items with an identity of their own, or when they come again whole with more
//! behind.

use super::merge::{Open, Outcome, Side, merge as merge_values};
use super::scan::Step;
use crate::answer::is_empty;
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// The fields by which an item is known, the surest first.
pub(super) const IDENTIFYING: [&str; 5] = ["id", "path", "key", "title", "name"];
/// The field by which the entries of a header are known. Elsewhere it may only say what an item is about, so it counts
/// where no two items of a list have the same.
const ENTRY: &str = "document_key";
/// The fields by which an item of a list is known that is one of entries.
const IDENTIFYING_ENTRY: [&str; 6] = ["id", "path", "key", "title", "name", ENTRY];
/// The most places at which a list may begin again that are tried.
const TRIED: usize = 64;

/// Puts the items of a list that goes on behind those that were there, and those that come again into them.
pub(super) fn merge(
    there: &mut Vec<Value>,
    more: Vec<Value>,
    was: Side,
    is: Side,
    within_item: bool,
    outcome: &mut Outcome,
) -> Option<Vec<Step>> {
    let count = there.len();
    let is_closed_within = within_item && was.is_none();
    let by = identifying(there, &more);
    let begins_again = begins_again(there, &more, was, is, by);
    let start = begins_again.unwrap_or(count);
    let known = if more.len() + start > count { places(there, &more, by) } else { HashMap::new() };
    let mut taken = vec![false; count];
    let mut cut = is.filter(|open| open.path.is_empty()).map(|_| Vec::new());
    // The item it was interrupted in stays interrupted until it comes again, or another one behind it; a list that was
    // complete stays so until something comes behind.
    let mut is_reached = was.is_some_and(|open| open.path.is_empty());
    for (at, item) in more.into_iter().enumerate() {
        let is = is.and_then(|open| open.item(at));
        let place = match start + at {
            aligned if aligned < count => Some(aligned),
            _ => find(there, &item, &known, by)
                .or_else(|| resumed(there, &item, was, is, by))
                .filter(|place| !taken[*place]),
        };
        let way = match place {
            Some(place) => {
                taken[place] = true;
                let was = was.and_then(|open| open.item(place));
                is_reached |= was.is_some();
                let left_out = outcome.left_out;
                let way = merge_values(&mut there[place], item, was, is, true, outcome);
                outcome.is_contradicted |= was.is_none() && outcome.left_out > left_out;
                way.map(|way| [vec![Step::Item(place)], way].concat())
            }
            None if is_closed_within && begins_again.is_none() && identity(&item, by).is_none() => {
                outcome.left_out += usize::from(!there.contains(&item));
                continue;
            }
            None => {
                (outcome.is_changed, is_reached) = (true, true);
                there.push(item);
                let place = there.len() - 1;
                is.map(|open| [vec![Step::Item(place)], open.path.to_vec()].concat())
            }
        };
        if is.is_some() {
            cut = way;
        }
    }
    cut.filter(|way| is_reached || !way.is_empty())
}

/// The fields by which the items of two lists are known.
fn identifying(there: &[Value], more: &[Value]) -> &'static [&'static str] {
    let are_entries = |items: &[Value]| {
        let mut seen = HashSet::new();
        let names = items.iter().map(|item| item.get(ENTRY).and_then(Value::as_str));
        // The last of them may have been cut off before its name.
        names.enumerate().all(|(at, name)| name.map_or(at + 1 == items.len(), |name| seen.insert(name)))
    };
    let begins = |items: &[Value]| items.first().is_some_and(|item| item.get(ENTRY).is_some());
    let is_header = (begins(there) || begins(more)) && are_entries(there) && are_entries(more);
    if is_header { &IDENTIFYING_ENTRY } else { &IDENTIFYING }
}

/// The place of the list at which the other one begins again, if it does.
fn begins_again(there: &[Value], more: &[Value], was: Side, is: Side, by: &[&str]) -> Option<usize> {
    let first = more.first()?;
    let same = |place: usize, at: usize| {
        let (was, is) = (was.and_then(|open| open.item(place)), is.and_then(|open| open.item(at)));
        is_same(&there[place], &more[at], was, is, by)
    };
    let runs = |place: usize| (0..more.len().min(there.len() - place)).all(|at| same(place + at, at));
    if more.len() >= there.len() && runs(0) {
        return Some(0);
    }
    // What it was interrupted in is the likeliest to come again, be it only with the fields it lacked; of items that
    // have no identity, the one that has a field in common with what comes.
    let last = there.len().checked_sub(1)?;
    if let (Value::Object(interrupted), Some(_)) = (&there[last], was.and_then(|open| open.item(last)))
        && (identity_of(interrupted, by).is_some() || interrupted.keys().any(|key| first.get(key).is_some()))
        && same(last, 0)
    {
        // A list that was cut off in its turn may not have come that far: it begins at the first item if it is more
        // like it.
        let common = |place: usize| there[place].as_object().map_or(0, |fields| common(fields, first));
        let is_first = is.is_some() && identity_of(interrupted, by).is_none() && common(0) > common(last);
        return Some(if is_first && runs(0) { 0 } else { last });
    }
    let mut tried = 0;
    for place in 0..there.len() {
        let is_interrupted = was.and_then(|open| open.item(place)).is_some();
        if !same(place, 0) {
            continue;
        }
        tried += 1;
        if tried > TRIED && place + 1 < there.len() {
            continue;
        }
        let run = more.len().min(there.len() - place);
        let reaches_end = place + run == there.len();
        // One small value like another proves nothing, unless all of them are the same.
        let proves =
            place == 0 || is_interrupted || run > 1 || first.is_string() || first.is_array() || first.is_object();
        if (reaches_end || place == 0) && proves && runs(place) {
            let plain = more[..run].iter().all(|item| item.is_number() || item.is_boolean() || item.is_null());
            if !plain || place == 0 || is_interrupted {
                return Some(place);
            }
        }
    }
    None
}

/// How many fields of an item another one has too.
fn common(fields: &Map<String, Value>, item: &Value) -> usize {
    fields.keys().filter(|key| item.get(key).is_some()).count()
}

/// Whether an item is the one that was there; one that was interrupted may lack what the other has.
fn is_same(ours: &Value, theirs: &Value, was: Side, is: Side, by: &[&str]) -> bool {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => match same_identity(ours, theirs, was, is, by) {
            Some(is_same) => is_same,
            None if was.is_some() || is.is_some() => {
                let is_resumed = was.is_some() && identity_of(ours, by).is_some() && identity_of(theirs, by).is_none();
                let have_common = ours.keys().any(|key| theirs.contains_key(key));
                (was.is_some() || theirs.is_empty() || have_common)
                    && ours.iter().all(|(key, mine)| match theirs.get(key) {
                        None => was.is_some() || is.is_some(),
                        Some(other) => {
                            let (was, is) = (was.and_then(|open| open.key(key)), is.and_then(|open| open.key(key)));
                            (is_resumed && was.is_some()) || is_empty(mine) || is_same(mine, other, was, is, by)
                        }
                    })
            }
            None => ours == theirs,
        },
        (Value::Array(ours), Value::Array(theirs)) if was.is_some() || is.is_some() => {
            let last = ours.len().min(theirs.len());
            (0..last).all(|at| {
                let (was, is) = (was.and_then(|open| open.item(at)), is.and_then(|open| open.item(at)));
                is_same(&ours[at], &theirs[at], was, is, by)
            }) && (was.is_some() || theirs.len() <= ours.len())
        }
        (Value::String(ours), Value::String(theirs)) => is_same_text(ours, theirs, was, is),
        _ => ours == theirs,
    }
}

fn is_same_text(ours: &str, theirs: &str, was: Side, is: Side) -> bool {
    ours == theirs || (was.is_some() && theirs.starts_with(ours)) || (is.is_some() && ours.starts_with(theirs))
}

/// Whether two items have the same identity: by the surest field that both have complete, and by the one that was cut.
fn same_identity(
    ours: &Map<String, Value>,
    theirs: &Map<String, Value>,
    was: Side,
    is: Side,
    by: &[&str],
) -> Option<bool> {
    let (mut complete, mut cut) = (None, None);
    for field in by {
        let names = ours.get(*field).and_then(name).zip(theirs.get(*field).and_then(name));
        let Some((mine, other)) = names else { continue };
        let (was, is) = (was.and_then(|open: Open| open.key(field)), is.and_then(|open: Open| open.key(field)));
        let decides = if was.is_some() || is.is_some() { &mut cut } else { &mut complete };
        decides.get_or_insert_with(|| is_same_text(&mine, &other, was, is));
    }
    match (complete, cut) {
        (Some(complete), Some(cut)) => Some(complete && cut),
        (complete, cut) => complete.or(cut),
    }
}

/// Every identity of these items that is there, and its last place.
fn places(there: &[Value], items: &[Value], by: &[&str]) -> HashMap<(usize, String), usize> {
    let wanted: HashSet<(usize, Cow<str>)> = items.iter().flat_map(|item| names(item, by)).collect();
    let mut places = HashMap::new();
    for (place, item) in there.iter().enumerate() {
        for (rank, name) in names(item, by).filter(|name| wanted.contains(name)) {
            places.insert((rank, name.into_owned()), place);
        }
    }
    places
}

/// The names an item has, each with the rank of its field.
fn names<'a>(item: &'a Value, by: &[&str]) -> impl Iterator<Item = (usize, Cow<'a, str>)> {
    by.iter().enumerate().filter_map(|(rank, field)| Some((rank, name(item.get(field)?)?)))
}

fn find(there: &[Value], item: &Value, known: &HashMap<(usize, String), usize>, by: &[&str]) -> Option<usize> {
    let fields = item.as_object()?;
    names(item, by).find_map(|(rank, name)| {
        let place = *known.get(&(rank, name.into_owned()))?;
        (same_identity(there[place].as_object()?, fields, None, None, by) == Some(true)).then_some(place)
    })
}

/// The place of the item that was interrupted, where this one may be it: it has the identity that was cut, or none of
/// its identifying fields and so may be what was lacking.
fn resumed(there: &[Value], item: &Value, was: Side, is: Side, by: &[&str]) -> Option<usize> {
    let open = was?;
    let Some(Step::Item(place)) = open.path.first() else { return None };
    let (interrupted, fields) = (there.get(*place)?.as_object()?, item.as_object()?);
    let inner = open.item(*place);
    let may_be = match same_identity(interrupted, fields, inner, is, by) {
        Some(is_same) => is_same,
        None => identity_of(interrupted, by).is_some(),
    };
    (may_be && is_same(&there[*place], item, inner, is, by)).then_some(*place)
}

/// What an item is called.
pub(super) fn called(item: &Value) -> Option<String> {
    identity(item, &IDENTIFYING_ENTRY)
}

fn identity(item: &Value, by: &[&str]) -> Option<String> {
    identity_of(item.as_object()?, by)
}

fn identity_of(fields: &Map<String, Value>, by: &[&str]) -> Option<String> {
    by.iter().find_map(|field| name(fields.get(*field)?)).map(Cow::into_owned)
}

fn name(value: &Value) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) if !text.trim().is_empty() => Some(Cow::Borrowed(text.trim())),
        Value::Number(number) => Some(Cow::Owned(number.to_string())),
        _ => None,
    }
}
