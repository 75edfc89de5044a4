//! The laws of limits that hold after any history: of waiting, of counting, and of leaving others alone.
//!
//! They decide nothing. A history is what happens to two providers with two models each, in any order.

use super::*;

/// Something that happens to limits. Providers and models are numbers here, tickets are counted from the oldest.
#[derive(Debug, Clone)]
enum Event {
    Pass(Duration),
    Allow { provider: u8, model: u8, of_provider: Allowance, of_model: Allowance },
    Rest { provider: u8, length: Duration },
    Probe { provider: u8, is_probing: bool },
    Begin { provider: u8, model: u8, tokens: u64 },
    Settle { provider: u8, index: usize, used: u64 },
    GiveBack { provider: u8, index: usize },
}

impl Event {
    fn provider(&self) -> Option<u8> {
        match *self {
            Event::Pass(_) => None,
            Event::Allow { provider, .. }
            | Event::Rest { provider, .. }
            | Event::Probe { provider, .. }
            | Event::Begin { provider, .. }
            | Event::Settle { provider, .. }
            | Event::GiveBack { provider, .. } => Some(provider),
        }
    }
}

/// Limits with a clock, and for each of two providers the tickets that are out.
#[derive(Default)]
struct World {
    limits: Limits,
    now: Duration,
    out: [Vec<Ticket>; 2],
}

impl World {
    /// What a call was told, where the event is a call.
    fn apply(&mut self, event: &Event) -> Option<Result<(), Wait>> {
        let World { limits, now, out } = self;
        let name = |number: u8| number.to_string();
        match *event {
            Event::Pass(time) => *now = now.saturating_add(time),
            Event::Allow { provider, model, of_provider, of_model } => {
                limits.allow(&name(provider), &name(model), of_provider, of_model, *now);
            }
            Event::Rest { provider, length } => limits.rest(&name(provider), now.saturating_add(length)),
            Event::Probe { provider, is_probing } => limits.probe(&name(provider), is_probing),
            Event::Begin { provider, model, tokens } => {
                let begun = limits.begin(&name(provider), &name(model), tokens, *now);
                return Some(begun.map(|ticket| out[usize::from(provider)].push(ticket)));
            }
            Event::Settle { provider, index, used } => {
                let out = &mut out[usize::from(provider)];
                if !out.is_empty() {
                    limits.settle(out.remove(index % out.len()), used, *now);
                }
            }
            Event::GiveBack { provider, index } => {
                let out = &mut out[usize::from(provider)];
                if !out.is_empty() {
                    limits.give_back(out.remove(index % out.len()), *now);
                }
            }
        }
        None
    }

    /// All that can be asked of a provider, now and later.
    fn answers(&self, provider: u8) -> Vec<(Option<usize>, Option<Wait>)> {
        let mut answers = Vec::new();
        for later in [0, 1, 1_000_000, 1_000_000_000, 3_600_000_000_000] {
            let now = self.now.saturating_add(Duration::from_nanos(later));
            for (model, tokens) in [("0", 0), ("0", 7), ("1", 1), ("1", 100_000)] {
                let provider = provider.to_string();
                let room = self.limits.room(&provider, model, tokens, now);
                answers.push((room, self.limits.next(&provider, model, tokens, now)));
            }
        }
        answers
    }
}

fn allowances(rates: impl Strategy<Value = u32> + Clone) -> impl Strategy<Value = Allowance> {
    use proptest::option::of;
    (of(1..9_u32), of(rates.clone()), of(rates)).prop_map(|(concurrency, requests_per_minute, tokens_per_minute)| {
        Allowance { concurrency, requests_per_minute, tokens_per_minute }
    })
}

fn events(
    rates: impl Strategy<Value = u32> + Clone,
    times: impl Strategy<Value = Duration> + Clone,
    sizes: impl Strategy<Value = u64> + Clone,
) -> impl Strategy<Value = Event> {
    let allowances = (allowances(rates.clone()), allowances(rates));
    prop_oneof![
        3 => times.clone().prop_map(Event::Pass),
        2 => (0..2_u8, 0..2_u8, allowances).prop_map(|(provider, model, (of_provider, of_model))| {
            Event::Allow { provider, model, of_provider, of_model }
        }),
        1 => (0..2_u8, times).prop_map(|(provider, length)| Event::Rest { provider, length }),
        1 => (0..2_u8, any::<bool>()).prop_map(|(provider, is_probing)| Event::Probe { provider, is_probing }),
        6 => (0..2_u8, 0..2_u8, sizes.clone())
            .prop_map(|(provider, model, tokens)| Event::Begin { provider, model, tokens }),
        3 => (0..2_u8, any::<usize>(), sizes)
            .prop_map(|(provider, index, used)| Event::Settle { provider, index, used }),
        1 => (0..2_u8, any::<usize>()).prop_map(|(provider, index)| Event::GiveBack { provider, index }),
    ]
}

fn plausible() -> impl Strategy<Value = Event> {
    events(1..50_000_u32, (0..2_000_000_000_u64).prop_map(Duration::from_nanos), 0..5_000_u64)
}

fn absurd() -> impl Strategy<Value = Event> {
    let times = prop_oneof![
        any::<u64>().prop_map(Duration::from_nanos),
        any::<u64>().prop_map(Duration::from_secs),
        Just(Duration::ZERO),
        Just(Duration::MAX),
    ];
    let rates = prop_oneof![any::<u32>(), Just(0), Just(u32::MAX)];
    events(rates, times, prop_oneof![any::<u64>(), Just(u64::MAX), 0..9_u64])
}

proptest! {
    #[test]
    fn no_number_is_too_absurd(events in proptest::collection::vec(absurd(), 0..60), back in any::<u64>()) {
        let mut world = World::default();
        for event in &events {
            world.apply(event);
            for (room, wait) in world.answers(0) {
                prop_assert_eq!(room == Some(0), wait.is_some());
            }
        }
        // A clock that goes back.
        world.now = world.now.saturating_sub(Duration::from_secs(back));
        for event in &events {
            world.apply(event);
            world.answers(0);
        }
    }

    #[test]
    fn the_room_is_exactly_how_many_begin(
        events in proptest::collection::vec(plausible(), 0..40),
        size in prop_oneof![Just(0), 1..10_000_u64],
    ) {
        let mut world = World::default();
        for event in &events {
            world.apply(event);
        }
        let World { mut limits, now, .. } = world;
        match limits.room("0", "0", size, now) {
            None => prop_assert!((0..200).all(|_| limits.begin("0", "0", size, now).is_ok())),
            Some(room) => {
                prop_assert!((0..room).all(|_| limits.begin("0", "0", size, now).is_ok()));
                prop_assert!(limits.begin("0", "0", size, now).is_err());
            }
        }
    }

    #[test]
    fn what_is_told_to_wait_begins_then_and_not_before(
        events in proptest::collection::vec(plausible(), 0..40),
        size in 0..10_000_u64,
    ) {
        let mut world = World::default();
        for event in &events {
            world.apply(event);
        }
        let World { mut limits, now, out: [out, _] } = world;
        match limits.begin("0", "0", size, now) {
            Ok(_) => {}
            Err(Wait::Until(Duration::MAX)) => prop_assert!(false, "no rate is zero here"),
            Err(Wait::Until(time)) => {
                prop_assert!(time > now);
                prop_assert!(limits.begin("0", "0", size, time - Duration::from_nanos(1)).is_err());
                prop_assert!(limits.begin("0", "0", size, time).is_ok());
            }
            Err(Wait::ForAnother) => {
                let ever = now + Duration::from_secs(1_000_000_000);
                prop_assert!(limits.begin("0", "0", size, ever).is_err(), "time does not help");
                out.into_iter().for_each(|ticket| limits.settle(ticket, 0, now));
                prop_assert!(limits.begin("0", "0", size, ever).is_ok(), "the others coming back does");
            }
        }
    }

    #[test]
    fn never_more_at_once_than_allowed(
        most in (1..6_u32, 1..6_u32),
        events in proptest::collection::vec(plausible(), 0..200),
    ) {
        let mut world = World::default();
        world.limits.allow("0", "0", concurrency(most.0), concurrency(most.1), world.now);
        for event in events.iter().filter(|event| !matches!(event, Event::Allow { .. })) {
            world.apply(event);
            let out = &world.out[0];
            prop_assert!(out.len() <= most.0 as usize);
            prop_assert!(out.iter().filter(|ticket| ticket.model == "0").count() <= most.1 as usize);
        }
    }

    #[test]
    fn two_providers_never_affect_each_other(events in proptest::collection::vec(plausible(), 0..80)) {
        let (mut both, mut alone) = (World::default(), World::default());
        for event in &events {
            let told = both.apply(event);
            if event.provider() != Some(1) {
                prop_assert_eq!(told, alone.apply(event));
                prop_assert_eq!(both.answers(0), alone.answers(0));
            }
        }
    }

    #[test]
    fn what_is_given_back_was_never_taken(
        events in proptest::collection::vec(plausible(), 0..60),
        at in 0..60_usize,
        size in 0..20_000_u64,
        held in 0..2_000_000_000_u64,
    ) {
        let (mut world, mut other) = (World::default(), World::default());
        for (turn, event) in events.iter().enumerate() {
            if turn == at && let Ok(ticket) = world.limits.begin("0", "0", size, world.now) {
                let held = Duration::from_nanos(held);
                world.now += held;
                other.now += held;
                world.limits.give_back(ticket, world.now);
                prop_assert_eq!(world.answers(0), other.answers(0));
            }
            prop_assert_eq!(world.apply(event), other.apply(event));
            prop_assert_eq!(world.answers(0), other.answers(0));
        }
    }

    #[test]
    fn to_say_the_same_again_changes_nothing(
        of_provider in allowances(1..50_000_u32),
        of_model in allowances(1..50_000_u32),
        events in proptest::collection::vec(plausible(), 0..60),
    ) {
        let (mut once, mut often) = (World::default(), World::default());
        let again = Event::Allow { provider: 0, model: 0, of_provider, of_model };
        once.apply(&again);
        often.apply(&again);
        for event in events.iter().filter(|event| !matches!(event, Event::Allow { .. })) {
            often.apply(&again);
            prop_assert_eq!(once.apply(event), often.apply(event));
            prop_assert_eq!(once.answers(0), often.answers(0));
        }
    }
}
