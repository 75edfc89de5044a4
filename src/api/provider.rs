//! What is said about providers and models, checked before it is stored. The rules are the core's; nothing here reads a
//! table.

use crate::error::{Error, SettingsOf};
use crate::settings;
use dialectic_core::provider::simulator;
use dialectic_core::provider::traits::{Manner, Traits};
use pgrx::JsonB;
use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;

/// Refuses settings that no provider has.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_provider_settings(settings: JsonB) -> Result<(), ErrorReport> {
    let of = SettingsOf::Provider;
    Manner::read(&settings.0).map_err(|reason| Error::Setting { of, reason })?;
    Ok(())
}

/// Refuses settings that no model of a provider with this api has.
#[pg_extern(immutable, parallel_safe)]
pub(crate) fn _check_model_settings(api: &str, settings: JsonB) -> Result<(), ErrorReport> {
    let (of, checked) = match api {
        "simulator" => (SettingsOf::Simulator, simulator::check_settings(&settings.0)),
        _ => (SettingsOf::Model, Traits::read(&settings.0).map(drop)),
    };
    Ok(checked.map_err(|reason| Error::Setting { of, reason })?)
}

/// How a reference to a secret may begin. Asked of the library, which is loaded by asking: a setting of that name made
/// before it was loaded, by anybody, does not count.
#[pg_extern(stable)]
pub(crate) fn _secret_prefixes() -> String {
    settings::secret_prefixes()
}
