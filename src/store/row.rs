//! Rows of a result, read by the names of their columns. What is not there, or not of its type, is an error that names
//! the column.

use crate::error::Error;
use pgrx::prelude::*;
use pgrx::spi::SpiHeapTupleData;
use std::str::FromStr;

/// A row and the names of its columns, in order.
pub(super) struct Row<'a> {
    pub(super) tuple: &'a SpiHeapTupleData<'a>,
    pub(super) columns: &'a [String],
}

impl Row<'_> {
    /// A column that is never null.
    pub(super) fn get<T: FromDatum + IntoDatum>(&self, column: &'static str) -> Result<T, Error> {
        self.nullable(column)?.ok_or_else(|| Error::Column { column, problem: "it is null".to_owned() })
    }

    /// A column that may be null.
    pub(super) fn nullable<T: FromDatum + IntoDatum>(&self, column: &'static str) -> Result<Option<T>, Error> {
        let fail = |problem: pgrx::spi::Error| Error::Column { column, problem: problem.to_string() };
        match self.columns.iter().position(|name| name == column) {
            Some(position) => self.tuple.get(position + 1).map_err(fail),
            None => Err(fail(pgrx::spi::SpiErrorCodes::NoAttribute.into())),
        }
    }

    /// A column that holds a word of a fixed list, which is never null.
    pub(super) fn parse<T: FromStr>(&self, column: &'static str) -> Result<T, Error> {
        let word: &str = self.get(column)?;
        word.parse().map_err(|_| Error::Column { column, problem: format!("\"{word}\" is not known") })
    }
}
