//! The books: what must be true of wallets, ledger and calls at every moment, and what when everything has ended.

use super::line::{Line, Storm};
use super::people::{PLENTY, paid_in};
use super::{WALLETS, opening, owner};
use dialectic_tests::*;
use postgres::Client;

/// Everything that is wrong at this moment, in one snapshot.
const WRONG: &str = "
    with entries as materialized (
        select l.owner, l.call_id, count(*) filter (where l.kind = 'hold') as holds, count(*) filter (where l.kind = 'settlement') as settlements,
               count(*) filter (where l.kind = 'correction') as corrections, sum(l.amount) as amount,
               coalesce(-sum(l.amount) filter (where l.kind = 'hold'), 0) as held
        from dialectic.ledger l
        group by l.owner, l.call_id),
    calls as materialized (
        select e.*, c.id, c.outcome, c.held as on_call, c.payer, s.owner as asks
        from entries e
        left join dialectic.model_calls c on c.id = e.call_id
        left join dialectic.sessions s on s.id = c.session_id
        where e.call_id is not null)
    select format('wallet of %s: balance %s, ledger %s', w.owner, w.balance, e.amount)
    from dialectic.wallets w
    full join (select owner, sum(amount) as amount from entries group by owner) as e on e.owner = w.owner
    where w.balance is distinct from coalesce(e.amount, 0)
    union all
    select format('wallet of %s is overdrawn: %s', w.owner, w.balance) from dialectic.wallets w where w.balance < 0
    union all
    select format('wallet of %s: %s held, its open calls hold %s', w.owner, w.held, coalesce(o.held, 0))
    from dialectic.wallets w
    left join (select owner, sum(held) as held from calls where outcome = 'open' and holds > 0 group by owner) as o on o.owner = w.owner
    where w.held <> coalesce(o.held, 0)
    union all
    select format('call %s is %s and has %s holds, %s settlements, %s corrections of %s, of which %s was held and %s is said to be; %s pays for %s, and %s is said to',
                  call_id, coalesce(outcome, 'gone'), holds, settlements, corrections, amount, held, on_call, owner, asks, payer)
    from calls
    where id is null or owner <> asks or owner is distinct from payer or holds <> 1 or settlements <> (outcome <> 'open')::integer or corrections > 1
       or corrections > settlements or amount > 0 or held is distinct from on_call
    union all
    select format('call %s of %s held %s and is not in the ledger', c.id, s.owner, c.held)
    from dialectic.model_calls c
    join dialectic.sessions s on s.id = c.session_id
    join dialectic.wallets w on w.owner = s.owner
    where c.held is not null and not exists (select from calls k where k.id = c.id)
    limit 20";

/// What is looked for while it happens, to know that it did.
const SEEN: &str = "select format('seen: %s', what) from (
        select 'a job without funds in its ' || short_of as what from dialectic.unfunded_jobs
        union select 'a call that is ' || outcome from dialectic.model_calls where outcome in ('lost', 'late')
        union select 'a ' || kind from dialectic.ledger where kind = 'correction'
        union select 'an amount that is not billed' from dialectic.model_calls where unbilled > 0) as seen";

/// Looks at the books until the end.
pub(super) fn observer(storm: &Storm<'_>) {
    let mut line = Line::safe(storm);
    while !storm.is_over_within(100) {
        storm.note("looked at the books");
        for wrong in line.ask(WRONG, &[]).unwrap_or_default() {
            storm.accuse(wrong.get(0));
        }
        for seen in line.ask(SEEN, &[]).unwrap_or_default() {
            storm.note(seen.get(0));
        }
    }
}

/// Everything has ended: nothing is held, and what was charged is what was used, once.
pub(super) fn assert_settled(client: &mut Client, storm: &Storm<'_>) {
    let nothing = |client: &mut Client, what: &str, query: &str| {
        let found: Vec<String> = column(client, query, &[]);
        assert!(found.is_empty(), "{what}: {found:#?}");
    };
    nothing(client, "what is wrong at any moment", WRONG);
    nothing(
        client,
        "calls whose charge is not their cost",
        "select format('%s: %s of %s, cost %s, held %s, unbilled %s, charged %s', c.id, c.outcome, s.owner, c.cost, c.held, c.unbilled, -l.amount)
         from dialectic.model_calls c
         join dialectic.sessions s on s.id = c.session_id
         join (select call_id, sum(amount) as amount from dialectic.ledger group by call_id) as l on l.call_id = c.id
         where c.outcome = 'open' or -l.amount + c.unbilled <> c.cost or -l.amount > c.held
         limit 20",
    );
    nothing(
        client,
        "calls that cost nothing to those who have a wallet",
        "select format('%s of %s: cost %s, unbilled %s', c.id, s.owner, c.cost, c.unbilled)
         from dialectic.model_calls c
         join dialectic.sessions s on s.id = c.session_id
         join dialectic.wallets w on w.owner = s.owner
         where c.cost > 0 and not exists (select from dialectic.ledger l where l.call_id = c.id)
         limit 20",
    );
    nothing(
        client,
        "what is held still",
        "select format('wallet of %s: %s', owner, held) from dialectic.wallets where held <> 0
         union all select format('budget of %s: %s', session_id, held) from dialectic.budgets where held <> 0
         union all select format('job %s without funds', u.job_id) from dialectic.unfunded_jobs u
                   join dialectic.jobs j on j.id = u.job_id and j.status = 'paused_nsf'",
    );
    for number in 0..WALLETS {
        let (left, charged): (i64, i64) = {
            let row = client
                .query_one(
                    "select w.balance, (select coalesce(sum(c.cost - c.unbilled), 0)::bigint from dialectic.model_calls c \
                                        join dialectic.sessions s on s.id = c.session_id where s.owner = w.owner) \
                     from dialectic.wallets w where w.owner = $1",
                    &[&owner(number)],
                )
                .expect("a wallet");
            (row.get(0), row.get(1))
        };
        let put_in = opening(number).unwrap_or_default() + paid_in(storm, number) + PLENTY;
        assert_eq!(left + charged, put_in, "owner {number}");
    }
    nothing(
        client,
        "laws that are broken, but for the one that shows what is unbilled",
        "select format('%s: %s %s', law, object, problem) from dialectic.self_check()
         where law <> 'a call costs no more than was held for it'",
    );
    // What was to happen did happen.
    let deeds = storm.deeds();
    for deed in [
        "killed",
        "crashed",
        "said twice",
        "said late",
        "said, and the job is stale",
        "not asked: no funds",
        "heard 55000",
        "cancel",
        "pause",
        "resume",
        "retry",
        "top_up",
        "set_budget",
        "seen: a job without funds in its wallet",
        "seen: a job without funds in its budget",
        "seen: a call that is lost",
        "seen: a call that is late",
        "seen: a correction",
        "seen: an amount that is not billed",
    ] {
        assert!(deeds.contains_key(deed), "never: {deed}; {deeds:#?}");
    }
}
