//! Combine jobs: which inputs of a job, and which parts of them, are condensed before it is asked.

use super::composite::{self, Composite};
use super::query;
use crate::error::Error;
use crate::store::claim::Claim;
use dialectic_core::context::Group;
use pgrx::datum::DatumWithOid;

const COMBINE: &str = "select dialectic._combine($1, $2, $3, $4)";

/// A combine job that is to be inserted.
pub(crate) struct Combine {
    target: i64,
    limit: i64,
    members: Vec<(i32, Option<(i32, i32)>)>,
}

impl Combine {
    /// A group of documents that stand at these positions of their job's inputs.
    pub(crate) fn new(group: &Group, positions: &[i32]) -> Self {
        let tokens = |count: u64| i64::try_from(count).unwrap_or(i64::MAX);
        let byte = |at: usize| i32::try_from(at).unwrap_or(i32::MAX);
        let members = group.members.iter().filter_map(|member| {
            let range = member.range.as_ref().map(|range| (byte(range.start), byte(range.end)));
            Some((*positions.get(member.document)?, range))
        });
        Self { target: tokens(group.target), limit: tokens(group.most), members: members.collect() }
    }
}

/// A combine job by its number.
struct GroupRow<'a>(i32, &'a Combine);

impl Composite for GroupRow<'_> {
    const TYPE: &'static str = "dialectic._combine_group";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        vec![self.0.into(), self.1.target.into(), self.1.limit.into()]
    }
}

/// An input that the combine job of a number reads.
struct MemberRow(i32, i32, Option<(i32, i32)>);

impl Composite for MemberRow {
    const TYPE: &'static str = "dialectic._combine_member";

    fn attributes(&self) -> Vec<DatumWithOid<'_>> {
        let (first, end) = self.2.unzip();
        vec![self.0.into(), self.1.into(), first.into(), end.into()]
    }
}

/// Has these groups of inputs of a claimed job condensed before it is asked.
pub(crate) fn combine(claim: &Claim, groups: &[Combine]) -> Result<(), Error> {
    let numbered = || (1..).zip(groups);
    let members: Vec<MemberRow> = numbered()
        .flat_map(|(number, group)| group.members.iter().map(move |(at, range)| MemberRow(number, *at, *range)))
        .collect();
    let groups: Vec<GroupRow> = numbered().map(|(number, group)| GroupRow(number, group)).collect();
    let args = [claim.job.into(), claim.id.into(), composite::array(&groups)?, composite::array(&members)?];
    query(COMBINE, &args, |_| Ok(())).map(drop)
}
