//! Rust values as arrays of composite types of the schema, so that a statement takes one argument for a list of rows.
//! An attribute of another type than the schema declares is an error before anything is sent.

use crate::error::Error;
use pgrx::PgTupleDesc;
use pgrx::datum::DatumWithOid;
use pgrx::prelude::*;

/// A value that Postgres receives as a composite type.
pub(super) trait Composite {
    /// The name of the type, with its schema.
    const TYPE: &'static str;

    /// Its attributes, in the order of the type.
    fn attributes(&self) -> Vec<DatumWithOid<'_>>;
}

/// An array of a composite type.
pub(super) fn array<T: Composite>(values: &[T]) -> Result<DatumWithOid<'static>, Error> {
    let wrong = |what: String| Error::Gone(format!("type {} {what}", T::TYPE));
    let row_type = PgTupleDesc::for_composite_type(T::TYPE).ok_or_else(|| wrong("does not exist".to_owned()))?;
    let mut rows = Vec::with_capacity(values.len());
    for value in values {
        let attributes = value.attributes();
        let mut types = row_type.iter().map(|attribute| attribute.atttypid);
        if attributes.len() != row_type.len() || !attributes.iter().all(|one| types.next() == Some(one.oid())) {
            return Err(wrong("has other attributes than the library sends".to_owned()));
        }
        let mut nulls: Vec<bool> = attributes.iter().map(|attribute| attribute.datum().is_none()).collect();
        let mut datums: Vec<pg_sys::Datum> = attributes
            .iter()
            .map(|one| one.datum().map_or(pg_sys::Datum::from(0), |datum| datum.sans_lifetime()))
            .collect();
        // SAFETY: there are as many datums as attributes, each of the type of its attribute.
        let tuple = unsafe { pg_sys::heap_form_tuple(row_type.as_ptr(), datums.as_mut_ptr(), nulls.as_mut_ptr()) };
        // SAFETY: a tuple that was just formed of values in memory is a composite datum itself.
        rows.push(unsafe { pg_sys::HeapTupleHeaderGetDatum((*tuple).t_data) });
    }
    let count = i32::try_from(rows.len()).map_err(|_| wrong("has too many values".to_owned()))?;
    // SAFETY: composite datums of the element type; of variable length and double alignment, as all composite types.
    let array = unsafe { pg_sys::construct_array(rows.as_mut_ptr(), count, row_type.oid(), -1, false, b'd' as _) };
    // SAFETY: asks the catalog for a type.
    let array_type = unsafe { pg_sys::get_array_type(row_type.oid()) };
    // SAFETY: the array was made of elements of that type.
    Ok(unsafe { DatumWithOid::new(pg_sys::Datum::from(array), array_type) })
}
