//! Server settings, each a private static with a getter. Values that users may change with SQL are in the table
//! `configuration`; here is only what the server itself must know or what only a superuser may touch.

use crate::test_hooks;
use dialectic_net::Policy;
use pgrx::guc::{GucContext, GucFlags, GucRegistry, GucSetting};
use std::ffi::CString;
use std::sync::Arc;

/// How owners are told apart: `role`, or `jwt` behind a gateway that signs users in.
static IDENTITY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"role"));
/// The roles that such a gateway uses for its users.
static JWT_ROLES: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"anon, authenticated"));
/// How many calls one claimer has under way at most.
static MAX_CONCURRENT_CALLS: GucSetting<i32> = GucSetting::<i32>::new(64);

/// How a reference to a secret may begin.
static SECRET_PREFIXES: GucSetting<Option<CString>> =
    GucSetting::<Option<CString>>::new(Some(c"env:DIALECTIC_, file:/run/secrets/"));
/// The hosts that may be called.
static ALLOWED_HOSTS: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(Some(c"*"));
/// What calls go through, where they cannot go straight.
static PROXY: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);
/// Authorities that are trusted besides those of the platform.
static CA_FILE: GucSetting<Option<CString>> = GucSetting::<Option<CString>>::new(None);

/// Defines the settings and reserves their prefix.
pub(crate) fn init() {
    GucRegistry::define_string_guc(
        c"dialectic.identity",
        c"How owners are told apart: role, or jwt.",
        c"With jwt the owner is the subject of request.jwt.claims, for the roles in dialectic.jwt_roles.",
        &IDENTITY,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"dialectic.jwt_roles",
        c"The roles whose owner is taken from their claims.",
        c"Separated by commas.",
        &JWT_ROLES,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_int_guc(
        c"dialectic.max_concurrent_calls",
        c"How many model calls one claimer has under way at most.",
        c"Each is a thread.",
        &MAX_CONCURRENT_CALLS,
        1,
        10_000,
        GucContext::Sighup,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"dialectic.secret_prefixes",
        c"How a reference to a secret may begin.",
        c"Separated by commas. A reference is env:NAME or file:/path.",
        &SECRET_PREFIXES,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"dialectic.allowed_hosts",
        c"The hosts that may be called.",
        c"Separated by commas; * is any host with a public address.",
        &ALLOWED_HOSTS,
        GucContext::Suset,
        GucFlags::default(),
    );
    GucRegistry::define_string_guc(
        c"dialectic.proxy",
        c"The proxy that calls go through.",
        c"The address of an HTTP proxy; none: calls go straight, whatever the environment says.",
        &PROXY,
        GucContext::Suset,
        GucFlags::SUPERUSER_ONLY,
    );
    GucRegistry::define_string_guc(
        c"dialectic.ca_file",
        c"A file of certificates of authorities that are trusted too.",
        c"In PEM, besides those that the platform trusts.",
        &CA_FILE,
        GucContext::Suset,
        GucFlags::default(),
    );
    test_hooks::define_settings();
    // SAFETY: called once from _PG_init, with a constant string.
    unsafe { pgrx::pg_sys::MarkGUCPrefixReserved(c"dialectic".as_ptr()) };
}

pub(crate) fn max_concurrent_calls() -> usize {
    usize::try_from(MAX_CONCURRENT_CALLS.get()).unwrap_or(1)
}

pub(crate) fn secret_prefixes() -> String {
    text(&SECRET_PREFIXES)
}

/// What the server allows on the way to a provider.
pub(crate) fn policy() -> Arc<Policy> {
    let some = |text: String| (!text.is_empty()).then_some(text);
    Arc::new(Policy {
        allowed_hosts: text(&ALLOWED_HOSTS),
        secret_prefixes: secret_prefixes(),
        proxy: some(text(&PROXY)),
        ca_file: some(text(&CA_FILE)),
    })
}

/// Whether owners are told apart by claims and this role is one whose claims count.
pub(crate) fn is_jwt_role(role: &str) -> bool {
    text(&IDENTITY) == "jwt" && text(&JWT_ROLES).split(',').any(|listed| listed.trim() == role)
}

fn text(setting: &'static GucSetting<Option<CString>>) -> String {
    setting.get().and_then(|value| value.into_string().ok()).unwrap_or_default()
}
