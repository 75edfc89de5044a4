//! The laws of reading: any bytes, cut anywhere, are heard the same way, in bounded memory and without a panic.
//!
//! They decide nothing; they hold [`super`], the frames below it and the transcript above it to what their headers say,
//! on real streams and on what becomes of them. A failure prints the bytes it was found with.

use super::*;
use crate::prompt::{Message, Role};
use crate::provider::transcript::Transcript;
use crate::provider::{FinishReason, Outcome, Request, Usage};
use proptest::prelude::*;

/// The largest message, where size is not what is looked at.
pub(crate) const MOST: usize = 1 << 20;
/// The size of the input that estimates are made of.
pub(crate) const INPUT: u64 = 1000;

/// A file of `tests/fixtures/providers`.
pub(crate) fn fixture(folder: &str, name: &str) -> Vec<u8> {
    let path = format!("{}/../../tests/fixtures/providers/{folder}/{name}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read(&path).unwrap_or_else(|problem| panic!("{path}: {problem}"))
}

/// A call with one message of each role.
pub(crate) fn request() -> Request {
    let said = |role, content: &str| Message { role, content: content.into() };
    Request {
        api: "api".into(),
        model: "name".into(),
        api_model: "api-name".into(),
        messages: vec![said(Role::System, "frame"), said(Role::User, "ask"), said(Role::Assistant, "said")],
        max_output_tokens: 100,
        context_window: 8000,
        content: None,
        settings: Value::Null,
        call_no: 1,
        embeds: None,
    }
}

/// What the bytes of a response come to, an estimate being the length of the text.
pub(crate) fn outcome(dialect: Dialect, framing: Framing, bytes: &[u8]) -> Outcome {
    let events = heard(dialect, framing, MOST, [bytes]);
    assert_eq!(events, heard(dialect, framing, MOST, bytes.chunks(1)), "the same bytes are the same events");
    come_to(events)
}

fn come_to(events: Vec<Event>) -> Outcome {
    let mut transcript = Transcript::default();
    events.into_iter().for_each(|event| transcript.take(event));
    transcript.outcome(Some(200), |text| (INPUT, text.len() as u64))
}

/// The text, the reason, the provider's word for it, and the usage of an answer.
pub(crate) fn answer(outcome: Outcome) -> (String, FinishReason, String, Usage) {
    match outcome {
        Outcome::Answer { text, finish_reason, finish_raw, usage } => (text, finish_reason, finish_raw.unwrap(), usage),
        failure => panic!("{failure:?}"),
    }
}

/// The class and the message of a failure.
pub(crate) fn failure(outcome: Outcome) -> (Class, String) {
    match outcome {
        Outcome::Failure { class, message, .. } => (class, message),
        answer => panic!("{answer:?}"),
    }
}

pub(crate) fn heard<'a>(
    dialect: Dialect,
    framing: Framing,
    most: usize,
    pieces: impl IntoIterator<Item = &'a [u8]>,
) -> Vec<Event> {
    let mut reader = Reader::new(dialect, framing, most);
    let mut events: Vec<Event> = pieces.into_iter().flat_map(|piece| reader.push(piece)).collect();
    events.extend(reader.end());
    events
}

const ANTHROPIC: &str = concat!(
    "event: message_start\ndata: {\"type\":\"message_start\",\"message\":{\"usage\":{\"input_tokens\":25,\"output_tokens\":1}}}\n\n",
    "event: ping\ndata: {\"type\": \"ping\"}\n\n",
    "event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"Héllo\"}}\n\n",
    "event: error\ndata: {\"type\": \"error\", \"error\": {\"type\": \"overloaded_error\", \"message\": \"Overloaded\"}}\n\n",
    "event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\"},\"usage\":{\"output_tokens\":15}}\n\n",
);
const GOOGLE: &str = concat!(
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"Héllo\"}],\"role\": \"model\"},\"index\": 0}]}\r\n\r\n",
    "data: {\"candidates\": [{\"content\": {\"parts\": [{\"text\": \"!\"}]},\"finishReason\": \"STOP\"}],",
    "\"usageMetadata\": {\"promptTokenCount\": 4,\"candidatesTokenCount\": 2}}\r\n\r\n",
);

/// A stream of every dialect and kind, with the dialect it is of.
fn streams() -> Vec<(Dialect, Framing, Vec<u8>)> {
    let mut streams = vec![
        (Dialect::Anthropic, Framing::Events, ANTHROPIC.as_bytes().to_vec()),
        (Dialect::Google, Framing::Events, GOOGLE.as_bytes().to_vec()),
    ];
    for name in ["success", "length", "refusal", "tool_call", "error_after_200"] {
        streams.push((Dialect::Chat, Framing::Events, fixture("chat", &format!("{name}.sse"))));
        streams.push((Dialect::Responses, Framing::Events, fixture("responses", &format!("{name}.sse"))));
        streams.push((Dialect::Ollama, Framing::Lines, fixture("ollama", &format!("{name}.ndjson"))));
    }
    streams.push((Dialect::Chat, Framing::Whole, fixture("chat", "success.json")));
    streams
}

/// Something that happens to bytes on their way.
#[derive(Debug, Clone)]
enum Harm {
    Drop(prop::sample::Index, usize),
    Double(prop::sample::Index, usize),
    Flip(prop::sample::Index, u8),
    Insert(prop::sample::Index, Vec<u8>),
}

fn any_harm() -> impl Strategy<Value = Harm> {
    let tokens = prop_oneof![
        prop::collection::vec(any::<u8>(), 1..8),
        prop::sample::select(vec![
            &b"\n"[..],
            b"\r",
            b"\r\n",
            b"\n\n",
            b"\r\n\r\n",
            b"data:",
            b"data: [DONE]\n\n",
            b"event: error\n",
            b": comment\n",
            b"\xef\xbb\xbf",
            b"\xc3",
            b"\\u0000",
            b"\\ud83d",
            b"\\",
            b"\0",
            b"{",
            b"\"",
        ])
        .prop_map(<[u8]>::to_vec),
    ];
    prop_oneof![
        (any::<prop::sample::Index>(), 1..40usize).prop_map(|(at, many)| Harm::Drop(at, many)),
        (any::<prop::sample::Index>(), 1..200usize).prop_map(|(at, many)| Harm::Double(at, many)),
        (any::<prop::sample::Index>(), 1..=255u8).prop_map(|(at, mask)| Harm::Flip(at, mask)),
        (any::<prop::sample::Index>(), tokens).prop_map(|(at, bytes)| Harm::Insert(at, bytes)),
    ]
}

fn harmed(mut bytes: Vec<u8>, harms: &[Harm]) -> Vec<u8> {
    for harm in harms {
        let place = |at: &prop::sample::Index| at.index(bytes.len() + 1);
        match harm {
            Harm::Drop(at, many) => {
                let from = place(at);
                bytes.drain(from..(from + many).min(bytes.len()));
            }
            Harm::Double(at, many) => {
                let from = place(at);
                let again = bytes[from..(from + many).min(bytes.len())].to_vec();
                bytes.splice(from..from, again);
            }
            Harm::Flip(at, mask) => {
                let from = place(at);
                bytes.iter_mut().skip(from).take(1).for_each(|byte| *byte ^= mask);
            }
            Harm::Insert(at, more) => {
                let from = place(at);
                bytes.splice(from..from, more.iter().copied());
            }
        }
    }
    bytes
}

/// The bytes in pieces of these sizes, over and over.
fn pieces<'a>(bytes: &'a [u8], sizes: &[usize]) -> Vec<&'a [u8]> {
    let (mut rest, mut pieces) = (bytes, Vec::new());
    for size in sizes.iter().cycle() {
        if rest.is_empty() {
            break;
        }
        let (piece, after) = rest.split_at((*size).min(rest.len()));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

/// That the bytes are heard the same way however they are cut, and nothing after a fault.
fn is_heard_alike(dialect: Dialect, framing: Framing, most: usize, bytes: &[u8], sizes: &[usize]) -> Vec<Event> {
    let whole = heard(dialect, framing, most, [bytes]);
    assert_eq!(whole, heard(dialect, framing, most, bytes.chunks(1)), "{dialect:?} {framing:?} byte by byte");
    assert_eq!(whole, heard(dialect, framing, most, pieces(bytes, sizes)), "{dialect:?} {framing:?} in {sizes:?}");
    let fault = whole.iter().position(|event| matches!(event, Event::Fault(_)));
    assert!(fault.is_none_or(|at| at + 1 == whole.len()), "{dialect:?} {framing:?}: heard after a fault: {whole:?}");
    whole
}

/// Bytes that are more often like a stream than chance would have it.
fn any_bytes() -> impl Strategy<Value = Vec<u8>> {
    let line = prop_oneof![
        prop::collection::vec(any::<u8>(), 0..30),
        "(data|event|id|retry|):? ?[ -~\u{e9}\u{1f600}]{0,20}".prop_map(String::into_bytes),
        "data: \\{\"[a-z]{1,8}\":(null|1|\"\\\\\\\\u[0-9a-d][0-9a-f]{3}\"|\\[\\])\\}".prop_map(String::into_bytes),
    ];
    let end = prop::sample::select(vec![&b"\n"[..], b"\r", b"\r\n", b"\n\n", b"\r\r", b""]);
    prop::collection::vec((line, end), 0..20)
        .prop_map(|lines| lines.into_iter().flat_map(|(line, end)| [line, end.to_vec()].concat()).collect())
}

proptest! {
    #[test]
    fn any_bytes_are_heard_alike_however_they_are_cut(
        bytes in any_bytes(), sizes in prop::collection::vec(1..50usize, 1..6), most in 0..200usize,
    ) {
        for dialect in Dialect::ALL {
            for framing in [Framing::Events, Framing::Lines, Framing::Whole] {
                for most in [most, MOST] {
                    come_to(is_heard_alike(dialect, framing, most, &bytes, &sizes));
                }
            }
        }
    }

    #[test]
    fn a_harmed_stream_is_heard_alike_however_it_is_cut(
        which in any::<prop::sample::Index>(), harms in prop::collection::vec(any_harm(), 0..6),
        sizes in prop::collection::vec(1..900usize, 1..6), most in 100..3000usize,
    ) {
        let streams = streams();
        let (dialect, framing, bytes) = &streams[which.index(streams.len())];
        let bytes = harmed(bytes.clone(), &harms);
        for most in [most, MOST] {
            come_to(is_heard_alike(*dialect, *framing, most, &bytes, &sizes));
        }
        // A response may be of another API than the one it was asked from.
        for dialect in Dialect::ALL {
            come_to(heard(dialect, *framing, MOST, [&bytes[..]]));
        }
    }

    #[test]
    fn what_is_kept_is_never_more_than_a_message(bytes in any_bytes(), most in 0..100usize) {
        for framing in [Framing::Events, Framing::Lines, Framing::Whole] {
            let (mut frames, mut found) = (Frames::new(framing, most), Vec::new());
            for byte in &bytes {
                if frames.push(&[*byte], &mut found).is_err() {
                    break;
                }
                prop_assert!(frames.kept() <= most, "{framing:?}: {} of {most}", frames.kept());
            }
        }
    }
}

#[test]
fn a_message_larger_than_it_may_be_is_a_fault_and_those_before_it_are_heard() {
    let small = "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\n";
    let large = format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{}\"}}}}]}}\n\n", "y".repeat(200));
    let bytes = format!("{small}{large}{small}");
    let events = is_heard_alike(Dialect::Chat, Framing::Events, 100, bytes.as_bytes(), &[7, 150]);
    assert_eq!(events, [Event::Text("x".into()), Event::Fault(too_large())]);
    let endless = [b"data: ".to_vec(), vec![b'z'; 1 << 16]].concat();
    assert_eq!(heard(Dialect::Chat, Framing::Events, 100, [&endless[..]]), [Event::Fault(too_large())]);
    let many = "data: 1\n".repeat(100);
    assert_eq!(heard(Dialect::Chat, Framing::Events, 100, [many.as_bytes()]), [Event::Fault(too_large())]);
    assert_eq!(heard(Dialect::Ollama, Framing::Lines, 100, [&endless[..]]), [Event::Fault(too_large())]);
    assert_eq!(heard(Dialect::Ollama, Framing::Whole, 100, [&endless[..]]), [Event::Fault(too_large())]);
    let fits = "data: {}\n\n".repeat(1000);
    assert_eq!(heard(Dialect::Chat, Framing::Events, 100, [fits.as_bytes()]), []);
}

#[test]
fn lines_end_in_every_way_and_data_may_have_several() {
    let plain = String::from_utf8(fixture("chat", "success.sse")).unwrap();
    let expected = answer(outcome(Dialect::Chat, Framing::Events, plain.as_bytes()));
    let folded = plain.replace(", \"choices\"", ",\ndata: \"choices\"");
    assert_ne!(folded, plain);
    let commented =
        format!("\u{feff}: OPENROUTER PROCESSING\n\n{}", plain.replace("\n\n", "\n\n:\n\nretry: 3\nid: 7\n\n"));
    for text in [&plain, &folded, &commented, &plain.replace("data: ", "data:")] {
        for end in ["\n", "\r", "\r\n"] {
            let bytes = text.replace('\n', end).into_bytes();
            let events = is_heard_alike(Dialect::Chat, Framing::Events, MOST, &bytes, &[1, 2, 3, 5]);
            assert_eq!(answer(come_to(events)), expected, "{end:?}");
        }
    }
    let lines = String::from_utf8(fixture("ollama", "success.ndjson")).unwrap();
    let spaced = format!("\u{feff}{}", lines.replace('\n', "\r\n\r\n"));
    let events = is_heard_alike(Dialect::Ollama, Framing::Lines, MOST, spaced.as_bytes(), &[3]);
    assert_eq!(answer(come_to(events)), answer(outcome(Dialect::Ollama, Framing::Lines, lines.as_bytes())));
    let body = [b"\xef\xbb\xbf".to_vec(), fixture("chat", "success.json")].concat();
    assert_eq!(answer(outcome(Dialect::Chat, Framing::Whole, &body)).1, FinishReason::Stop);
}

#[test]
fn a_character_cut_in_two_is_one_and_what_is_none_is_replaced() {
    let said = |content: &str| format!("data: {{\"choices\":[{{\"delta\":{{\"content\":\"{content}\"}}}}]}}\n\n");
    let text = |bytes: &[u8]| -> String {
        let events = is_heard_alike(Dialect::Chat, Framing::Events, MOST, bytes, &[1, 4, 9]);
        let said = |event| if let Event::Text(text) = event { text } else { panic!("{event:?}") };
        events.into_iter().map(said).collect()
    };
    assert_eq!(text(said("é😀漢").as_bytes()), "é😀漢");
    assert_eq!(text(said("\\ud83d\\ude00").as_bytes()), "😀");
    assert_eq!(text(said("a\\ud83db").as_bytes()), "a\u{fffd}b");
    assert_eq!(text(said("\\ude00\\ud83d\\\\ud83d").as_bytes()), "\u{fffd}\u{fffd}\\ud83d");
    assert_eq!(text((said("\\ud83d") + &said("\\ude00")).as_bytes()), "\u{fffd}\u{fffd}");
    let mut broken = said("x").into_bytes();
    let at = broken.iter().position(|byte| *byte == b'x').unwrap();
    broken[at] = 0xff;
    assert_eq!(text(&broken), "\u{fffd}");
}

#[test]
fn what_postgres_cannot_store_is_in_no_outcome() {
    let chunks = "data: {\"choices\":[{\"delta\":{\"content\":\"a\\u0000b\"},\"finish_reason\":\"s\\u0000\"}]}\n\n";
    let (text, _, raw, _) = answer(outcome(Dialect::Chat, Framing::Events, chunks.as_bytes()));
    assert_eq!((text.as_str(), raw.as_str()), ("a\u{fffd}b", "s\u{fffd}"));
    let error = "data: {\"error\":{\"message\":\"a\\u0000b\"}}\n\n";
    assert_eq!(failure(outcome(Dialect::Chat, Framing::Events, error.as_bytes())).1, "a\u{fffd}b");
}

#[test]
fn half_a_message_at_the_end_says_nothing() {
    let whole = String::from_utf8(fixture("chat", "success.sse")).unwrap();
    let finished = whole.find("\"finish_reason\":\"stop\"").unwrap();
    let usage = finished + whole[finished..].find("data: ").unwrap();
    let (text, reason, _, usage) = answer(outcome(Dialect::Chat, Framing::Events, &whole.as_bytes()[..usage + 40]));
    assert_eq!((text.as_str(), reason, usage.estimated), ("Hello", FinishReason::Stop, true));
    let not_json = b"data: not json\n\ndata: {}\n\n";
    assert_eq!(failure(outcome(Dialect::Chat, Framing::Events, not_json)).0, Class::Transient);
    assert!(matches!(heard(Dialect::Chat, Framing::Whole, MOST, [&b"{\"choices\":"[..]])[..], [Event::Fault(_)]));
}

#[test]
fn half_a_refusal_is_a_refusal() {
    let chunks = "data: {\"choices\":[{\"delta\":{\"refusal\":\"I am\"},\"finish_reason\":\"length\"}]}\n\n";
    let (_, reason, raw, _) = answer(outcome(Dialect::Chat, Framing::Events, chunks.as_bytes()));
    assert_eq!((reason, raw.as_str()), (FinishReason::ContentFilter, "length"));
}

#[test]
fn nothing_is_heard_after_the_terminator() {
    let bytes = b"data: [DONE]\n\ndata: not json\n\ndata: {\"error\":\"late\"}\n\n";
    assert_eq!(is_heard_alike(Dialect::Chat, Framing::Events, MOST, bytes, &[3, 11]), []);
}
