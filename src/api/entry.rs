//! The entry to every function that runs with the rights of the extension's owner: who called it, and whether it may
//! run.
//!
//! Postgres switches to the owner of a SECURITY DEFINER function before any code of it runs, so nothing inside can
//! tell whose call it is. Such functions are therefore called through `dialectic_call_as_owner`, which runs as the
//! caller, records who that is, switches, and calls the function of the same name in `dialectic_internal`
//! (sql/security.sql creates both). It never decides what the caller may see or change: the function called does.

use pgrx::pg_sys::panic::ErrorReport;
use pgrx::prelude::*;
use std::cell::RefCell;
use std::mem::{MaybeUninit, size_of};

/// The schema of the functions that are called here; nobody is granted anything in it.
const INTERNAL: &std::ffi::CStr = c"dialectic_internal";

/// A call that is running as the owner.
struct Call {
    caller: pg_sys::Oid,
    owner: pg_sys::Oid,
    subtransaction: pg_sys::SubTransactionId,
}

thread_local! {
    /// The calls that are running, the innermost last. An error passes through them as through C, without unwinding,
    /// so the end of its (sub)transaction removes them, as it switches the user back.
    static CALLS: RefCell<Vec<Call>> = const { RefCell::new(Vec::new()) };
}

/// What is known of an entry from its first call on: kept where the server keeps what belongs to a call site.
#[repr(C)]
struct Target {
    function: pg_sys::FmgrInfo,
    owner: pg_sys::Oid,
    is_volatile: bool,
}

/// What has to be undone when the function returns.
#[derive(Clone, Copy)]
#[repr(C)]
struct Entered {
    target: *mut Target,
    code: unsafe extern "C-unwind" fn(pg_sys::FunctionCallInfo) -> pg_sys::Datum,
    user: pg_sys::Oid,
    security_context: i32,
    depth: usize,
}

/// Room for the arguments of any function.
#[repr(C)]
struct Arguments {
    head: pg_sys::FunctionCallInfoBaseData,
    values: [pg_sys::NullableDatum; pg_sys::FUNC_MAX_ARGS as usize],
}

/// Registers, once per process, what happens to running calls at the end of a (sub)transaction.
pub(crate) fn init() {
    // SAFETY: the callbacks live as long as the library, which is never unloaded.
    unsafe {
        pg_sys::RegisterXactCallback(Some(on_transaction_end), std::ptr::null_mut());
        pg_sys::RegisterSubXactCallback(Some(on_subtransaction_end), std::ptr::null_mut());
    }
}

/// The role that called the function of ours that is running now as the owner; without one, the current user.
#[pg_extern(stable, parallel_restricted)]
pub(crate) fn _calling_role() -> pg_sys::Oid {
    // SAFETY: returns a value of the session's state.
    let current = unsafe { pg_sys::GetUserId() };
    // Code of somebody else that is called meanwhile, such as a trigger of his, has another current user.
    CALLS.with_borrow(|calls| calls.last().filter(|call| call.owner == current).map_or(current, |call| call.caller))
}

#[unsafe(no_mangle)]
pub(crate) extern "C-unwind" fn pg_finfo_dialectic_call_as_owner() -> &'static pg_sys::Pg_finfo_record {
    const V1: pg_sys::Pg_finfo_record = pg_sys::Pg_finfo_record { api_version: 1 };
    &V1
}

/// Calls the function of the same name and arguments in `dialectic_internal` as the owner of this one.
///
/// # Safety
/// Called by the server, as a function of its catalog. An error jumps over this frame, which therefore owns nothing.
#[unsafe(no_mangle)]
pub(crate) unsafe extern "C-unwind" fn dialectic_call_as_owner(fcinfo: pg_sys::FunctionCallInfo) -> pg_sys::Datum {
    // SAFETY: the arguments are copied because an error would leave a changed `flinfo` behind in a call site that is
    // used again.
    unsafe {
        let entered = enter(fcinfo);
        let mut arguments = MaybeUninit::<Arguments>::uninit();
        let inner = arguments.as_mut_ptr().cast::<pg_sys::FunctionCallInfoBaseData>();
        let number = usize::try_from((*fcinfo).nargs).unwrap_or(0);
        let bytes = size_of::<pg_sys::FunctionCallInfoBaseData>() + number * size_of::<pg_sys::NullableDatum>();
        std::ptr::copy_nonoverlapping(fcinfo.cast::<u8>(), inner.cast::<u8>(), bytes);
        (*inner).flinfo = &raw mut (*entered.target).function;
        (*inner).isnull = false;
        let result = (entered.code)(inner);
        (*fcinfo).isnull = (*inner).isnull;
        leave(entered);
        result
    }
}

/// Records the caller and switches to the owner; nothing fails after the first of these two.
#[pg_guard]
unsafe extern "C-unwind" fn enter(fcinfo: pg_sys::FunctionCallInfo) -> Entered {
    // SAFETY: `flinfo` is what the server gave, and all of it is read in the main thread.
    unsafe {
        let target = target((*fcinfo).flinfo);
        if pg_sys::InSecurityRestrictedOperation() {
            refuse_restricted((*fcinfo).flinfo);
        }
        let context = (*fcinfo).context;
        let is_trigger = !context.is_null() && pgrx::is_a(context, pg_sys::NodeTag::T_TriggerData);
        if (*target).is_volatile && !is_trigger && is_replica() {
            refuse_replica((*fcinfo).flinfo);
        }
        let Some(code) = (*target).function.fn_addr else {
            error!("function {} has no code", name((*fcinfo).flinfo));
        };
        let (mut user, mut security_context) = (pg_sys::InvalidOid, 0);
        pg_sys::GetUserIdAndSecContext(&mut user, &mut security_context);
        let call = Call {
            caller: _calling_role(),
            owner: (*target).owner,
            subtransaction: pg_sys::GetCurrentSubTransactionId(),
        };
        let depth = CALLS.with_borrow_mut(|calls| {
            calls.push(call);
            calls.len() - 1
        });
        pg_sys::SetUserIdAndSecContext(
            (*target).owner,
            security_context | pg_sys::SECURITY_LOCAL_USERID_CHANGE.cast_signed(),
        );
        Entered { target, code, user, security_context, depth }
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn leave(entered: Entered) {
    CALLS.with_borrow_mut(|calls| calls.truncate(entered.depth));
    // SAFETY: gives back what was there before.
    unsafe { pg_sys::SetUserIdAndSecContext(entered.user, entered.security_context) };
}

#[pg_guard]
unsafe extern "C-unwind" fn on_transaction_end(event: pg_sys::XactEvent::Type, _arg: *mut core::ffi::c_void) {
    use pg_sys::XactEvent::{XACT_EVENT_PARALLEL_PRE_COMMIT, XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE};
    // Deferred triggers run after those three.
    if ![XACT_EVENT_PARALLEL_PRE_COMMIT, XACT_EVENT_PRE_COMMIT, XACT_EVENT_PRE_PREPARE].contains(&event) {
        let _ = CALLS.try_with(|calls| calls.borrow_mut().clear());
    }
}

#[pg_guard]
unsafe extern "C-unwind" fn on_subtransaction_end(
    event: pg_sys::SubXactEvent::Type,
    ended: pg_sys::SubTransactionId,
    _parent: pg_sys::SubTransactionId,
    _arg: *mut core::ffi::c_void,
) {
    // Numbers of subtransactions grow: what began in this one or below it has this number or a higher one.
    if event == pg_sys::SubXactEvent::SUBXACT_EVENT_ABORT_SUB {
        let _ = CALLS.try_with(|calls| calls.borrow_mut().retain(|call| call.subtransaction < ended));
    }
}

/// Finds the function to call; once for every call site.
unsafe fn target(entry: *mut pg_sys::FmgrInfo) -> *mut Target {
    // SAFETY: what is found in the catalog is copied before its tuple is released; the memory lives as long as the
    // call site.
    unsafe {
        let known = (*entry).fn_extra.cast::<Target>();
        if !known.is_null() {
            return known;
        }
        let (procedures, by_name) = (pg_sys::SysCacheIdentifier::PROCOID, pg_sys::SysCacheIdentifier::PROCNAMEARGSNSP);
        let tuple = pg_sys::SearchSysCache1(procedures as i32, pg_sys::Datum::from((*entry).fn_oid));
        if tuple.is_null() {
            error!("function {} does not exist", (*entry).fn_oid.to_u32());
        }
        let row = pg_sys::GETSTRUCT(tuple).cast::<pg_sys::FormData_pg_proc>();
        let found = pg_sys::SearchSysCache3(
            by_name as i32,
            pg_sys::Datum::from(&raw const (*row).proname),
            pg_sys::Datum::from(&raw const (*row).proargtypes),
            pg_sys::Datum::from(pg_sys::get_namespace_oid(INTERNAL.as_ptr(), false)),
        );
        if found.is_null() {
            error!("function {} does not exist in dialectic_internal", name(entry));
        }
        let target_oid = (*pg_sys::GETSTRUCT(found).cast::<pg_sys::FormData_pg_proc>()).oid;
        let new = pg_sys::MemoryContextAllocZero((*entry).fn_mcxt, size_of::<Target>()).cast::<Target>();
        (*new).owner = (*row).proowner;
        (*new).is_volatile = (*row).provolatile.to_ne_bytes() == [pg_sys::PROVOLATILE_VOLATILE];
        pg_sys::ReleaseSysCache(found);
        pg_sys::ReleaseSysCache(tuple);
        pg_sys::fmgr_info_cxt(target_oid, &raw mut (*new).function, (*entry).fn_mcxt);
        (*new).function.fn_expr = (*entry).fn_expr;
        (*entry).fn_extra = new.cast();
        new
    }
}

/// Whether triggers that queue work do not fire in this session.
pub(crate) fn is_replica() -> bool {
    // SAFETY: a setting, read in the main thread.
    unsafe { pg_sys::SessionReplicationRole == pg_sys::SESSION_REPLICATION_ROLE_REPLICA.cast_signed() }
}

unsafe fn name(entry: *mut pg_sys::FmgrInfo) -> String {
    // SAFETY: the name is copied.
    unsafe {
        let name = pg_sys::get_func_name((*entry).fn_oid);
        if name.is_null() { "?".to_owned() } else { std::ffi::CStr::from_ptr(name).to_string_lossy().into_owned() }
    }
}

unsafe fn refuse_restricted(entry: *mut pg_sys::FmgrInfo) -> ! {
    // SAFETY: as `name`.
    let name = unsafe { name(entry) };
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_INSUFFICIENT_PRIVILEGE,
        format!("cannot call dialectic.{name} within a security-restricted operation"),
        "dialectic",
    )
    .set_detail(
        "ANALYZE, VACUUM, REINDEX, CREATE INDEX and REFRESH MATERIALIZED VIEW run the functions that a table or view \
         uses with the rights of its owner.",
    )
    .set_hint("Read a view of the schema dialectic there instead, such as SELECT * FROM dialectic.usage.")
    .report(PgLogLevel::ERROR);
    unreachable!("an error was raised")
}

unsafe fn refuse_replica(entry: *mut pg_sys::FmgrInfo) -> ! {
    // SAFETY: as `name`.
    let name = unsafe { name(entry) };
    report_replica(&format!("dialectic.{name}")).report(PgLogLevel::ERROR);
    unreachable!("an error was raised")
}

/// Why nothing is changed while triggers do not fire.
pub(crate) fn report_replica(name: &str) -> ErrorReport {
    ErrorReport::new(
        PgSqlErrorCode::ERRCODE_OBJECT_NOT_IN_PREREQUISITE_STATE,
        format!("cannot call {name} while session_replication_role is replica"),
        "dialectic",
    )
    .set_detail("The triggers that queue work do not fire then, so the work would never be done.")
    .set_hint("SET session_replication_role = origin;")
}
