//! Putting down what models are saying.

use super::query;
use crate::error::Error;
use crate::store::claim::Claim;

const APPEND: &str = "select dialectic._append_partials($1, $2, $3)";

/// Puts down what these calls have said since the last time.
pub(crate) fn append(said: &[&(Claim, String)]) -> Result<(), Error> {
    if said.is_empty() {
        return Ok(());
    }
    let (mut jobs, mut claims, mut texts) = (Vec::new(), Vec::new(), Vec::new());
    for (claim, text) in said {
        jobs.push(claim.job);
        claims.push(claim.id);
        texts.push(text.as_str());
    }
    query(APPEND, &[jobs.into(), claims.into(), texts.into()], |_| Ok(())).map(drop)
}
