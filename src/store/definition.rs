//! Reading the frozen definition of a session. It never changes and is named by its content, so what was read can be
//! kept for as long as the process lives.

use super::query;
use crate::error::Error;
use dialectic_core::definition::Definition;
use pgrx::JsonB;
use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::Arc;

const READ: &str = "select process, domain, stages, prompts, documents, overlays from dialectic.definitions where id \
     operator(pg_catalog.=) $1";

/// How many definitions a process keeps.
const KEPT: usize = 16;

thread_local! {
    static DEFINITIONS: RefCell<HashMap<String, Arc<Definition>>> = RefCell::new(HashMap::new());
}

/// Forgets what was read, because a job could not be made from it: somebody may have changed and then restored the row.
pub(crate) fn forget() {
    DEFINITIONS.with_borrow_mut(HashMap::clear);
}

/// A definition by its id.
pub(crate) fn definition(id: &str) -> Result<Arc<Definition>, Error> {
    if let Some(kept) = DEFINITIONS.with_borrow(|definitions| definitions.get(id).cloned()) {
        return Ok(kept);
    }
    let stored = query(READ, &[id.into()], |row| {
        Ok((
            row.get::<String>("process")?,
            row.get::<String>("domain")?,
            row.get::<JsonB>("stages")?,
            row.get::<JsonB>("prompts")?,
            row.get::<JsonB>("documents")?,
            row.get::<JsonB>("overlays")?,
        ))
    })?;
    let Some((process, domain, stages, prompts, documents, overlays)) = stored.into_iter().next() else {
        return Err(Error::Unreadable(format!("definition \"{id}\" does not exist")));
    };
    let read = Arc::new(Definition::read(process, domain, &stages.0, prompts.0, documents.0, overlays.0)?);
    DEFINITIONS.with_borrow_mut(|definitions| {
        if definitions.len() >= KEPT {
            definitions.clear();
        }
        definitions.insert(id.to_owned(), Arc::clone(&read));
    });
    Ok(read)
}
