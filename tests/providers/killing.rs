//! The worker killed again and again while a model speaks: the document is the one it would have been, and no more is paid for twice
//! than was said between what was put down last and the end.

use crate::ground::*;
use crate::writing::*;
use dialectic_tests::fake_provider::{Act, Author, Provider};
use dialectic_tests::server::{signal, soon, within, worker};
use dialectic_tests::*;
use postgres::Client;
use std::time::{Duration, Instant};

const KILLS: usize = 20;
/// How often text is put down.
const FLUSH: Duration = Duration::from_millis(200);
/// The time between two words.
const PACE: Duration = Duration::from_millis(2);

/// How many calls have stored text that the next call continues; a few letters do not count.
fn fragments(client: &mut Client) -> usize {
    one::<i64>(client, "select count(*) from dialectic._fragments", &[]) as usize
}

#[test]
fn killed_twenty_times_in_mid_stream_nothing_is_lost_and_little_is_paid_for_twice() {
    let provider = Provider::start();
    let (server, mut client) = own(LOOPBACK, &[]);
    configure(&mut client, "partial_flush_seconds", &FLUSH.as_secs_f64().to_string());
    let whole = prose(36_000);
    let length = whole.chars().count();
    provider.script("slow", vec![Act::author(Author::of(&whole)).every(PACE)]);
    provide(&mut client, "slow", "openai", &provider, "");
    model(&mut client, "slow", "slow", ", input_price => 1.25, output_price => 10");
    let begun = Instant::now();
    let session = calls(&mut client, "slow", 1);
    for kill in 0..KILLS {
        // The call has stored a fragment; then at any moment until it stores text again.
        soon("the call has stored a fragment", || fragments(&mut client) > kill);
        std::thread::sleep(FLUSH * (kill as u32 * 7 % KILLS as u32) / KILLS as u32);
        assert_eq!(provider.under_way("slow"), 1, "kill {kill} is in mid-stream");
        let pid = worker(&mut client).expect("a worker");
        let before = server.beginnings().len();
        signal(pid, libc::SIGKILL);
        within(Duration::from_secs(30), "the server is back", || server.beginnings().len() > before);
        client = server.connect("law");
    }
    let left = "select count(*) from dialectic.sessions where status = 'active'";
    within(Duration::from_secs(60), "the session has ended", || one::<i64>(&mut client, left, &[]) == 0);

    assert_eq!(document(&mut client, session), whole);
    let mut expected: Vec<String> = (1..=KILLS).map(|chunk| format!("{chunk} error 0")).collect();
    expected.push(format!("{} stop 0", KILLS + 1));
    assert_eq!(chunks(&mut client, session), expected);
    assert_eq!(
        links(&mut client, session),
        ["0 completed 1 begins"],
        "neither an attempt nor a continuation is charged"
    );
    let shown = shown(&provider, "slow");
    assert_eq!(shown.len(), KILLS, "one request for each kill");
    assert!(shown.iter().all(|words| whole.starts_with(words.as_str())));
    assert!(shown.is_sorted_by(|one, next| one.len() < next.len()), "every time it has come further");

    let word = length / whole.split_inclusive(' ').count() + 1;
    let interval = word * (FLUSH.as_millis() / PACE.as_millis()) as usize;
    let twice = provider.spoken() - length;
    println!(
        "{KILLS} kills in {:?}: {twice} characters beyond the {length} of the document, {} a kill; a flush interval is {interval}",
        begun.elapsed(),
        twice / KILLS
    );
    assert!(twice <= KILLS * interval, "{twice} characters beyond the document's {length}; an interval is {interval}");

    // What was lost was paid for, and is said to have been.
    let paid: Vec<String> = column(
        &mut client,
        "select concat_ws(' ', count(*), outcome, is_estimated) from dialectic.model_calls \
         where input_tokens > 0 and output_tokens > 0 and cost > 0 group by outcome, is_estimated order by outcome",
        &[],
    );
    assert_eq!(paid, ["1 answered f".to_owned(), format!("{KILLS} lost t")]);
    assert_eq!(one::<i64>(&mut client, "select count(*) from dialectic.partials", &[]), 0);
    assert_sound(&mut client);
}
