//! Laws of the background worker, seen from outside. Each test has a server of its own, for most of them kill it: what is
//! killed, stopped, dropped or switched off loses nothing, and what comes back goes on at once.

mod autovacuum;
mod cancelling;
mod claims;
mod crashes;
mod databases;
mod dropping;
mod extension;
mod fairness;
mod full_wal;
mod funds;
mod held_up;
mod hold_up_ends;
mod holding;
mod idling;
mod killers;
mod limits;
mod load;
mod looks;
mod maintenance;
mod money;
mod other_schema;
mod publication;
mod random_kills;
mod schedules;
mod seed_prompts;
mod settings;
mod shutdown;
mod signals;
mod standby;
mod switching;
mod threads;
mod tmpfs;
mod unknown_model;
mod waiting;
mod waking;
