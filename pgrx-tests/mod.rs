//! Laws seen from inside a backend; each test runs in a transaction that is rolled back.
//!
//! | file | is about |
//! |---|---|
//! | `identity` | the clock, ids made from it, and who is asking |
//! | `planning` | recipes, plans, prompts and verdicts as functions of SQL |
//! | `seed` | the data that an installation by pgrx brings |
//! | `refusal` | the errors of the Rust side as a backend raises them |

mod identity;
mod planning;
mod refusal;
mod seed;

use pgrx::prelude::*;

/// The one value of a query that must give one.
fn one<T: FromDatum + IntoDatum>(query: &str) -> T {
    Spi::get_one(query)
        .unwrap_or_else(|error| panic!("{query}\n{error}"))
        .unwrap_or_else(|| panic!("{query}\ngave null"))
}

/// The text of a value, whatever its type.
fn text(expression: &str) -> String {
    one(&format!("select ({expression})::text"))
}
