//! Laws of what the test holds in its hand: answers that wait for a latch, how many are under way, connections that end.

use super::*;
use crate::eventually;

/// Whether the other side has closed it.
fn is_closed(client: &mut Client) -> bool {
    matches!(client.socket.get_mut().read(&mut [0; 1]), Ok(0) | Err(_))
}

#[test]
fn a_held_answer_says_its_first_pieces_and_the_rest_when_the_latch_is_lifted() {
    let (provider, latch) = (Provider::start(), Latch::default());
    provider.script("m", vec![Act::text("One two three").held(2, &latch)]);
    let mut client = Client::new(&provider);
    client.say(&request(Dialect::Ollama, "m", ""));
    while !client.line().expect("a header").is_empty() {}
    for word in ["One ", "two "] {
        client.line().expect("a size");
        let mut line = String::new();
        std::io::BufRead::read_line(&mut client.socket, &mut line).expect("a message");
        assert!(line.contains(word), "{line}");
        assert_eq!(client.line().as_deref(), Some(""));
    }
    client.socket.get_mut().set_read_timeout(Some(Duration::from_millis(100))).expect("a timeout");
    assert!(client.socket.get_mut().read(&mut [0; 1]).is_err(), "nothing more is said");
    assert_eq!((provider.under_way("m"), provider.under_way("")), (1, 1));
    latch.lift();
    client.socket.get_mut().set_read_timeout(Some(Duration::from_secs(10))).expect("a timeout");
    assert!(client.line().is_some(), "it goes on");
}

#[test]
fn those_under_way_at_once_are_counted_by_model_and_together_and_once_they_have_ended_no_more() {
    let (provider, latch) = (Provider::start(), Latch::default());
    for model in ["a", "b"] {
        provider.script(model, vec![Act::text("Later.").held(0, &latch)]);
    }
    let mut clients: Vec<Client> = (0..5).map(|_| Client::new(&provider)).collect();
    for (client, model) in clients.iter_mut().zip(["a", "a", "a", "b", "b"]) {
        client.say(&request(Dialect::Chat, model, ""));
    }
    eventually("all are under way", || provider.under_way("") == 5);
    latch.lift();
    for client in &mut clients {
        assert!(client.hear().is_whole);
    }
    assert_eq!([provider.under_way("a"), provider.under_way("b"), provider.under_way("")], [0; 3]);
    assert_eq!(["a", "b", ""].map(|model| provider.most_at_once(model)), [3, 2, 5]);
    provider.reset_gauge();
    clients[0].ask(Dialect::Chat, "a", "");
    assert_eq!(["a", "b", ""].map(|model| provider.most_at_once(model)), [1, 0, 1]);
}

#[test]
fn a_client_that_goes_while_it_is_held_is_noticed() {
    let (provider, latch) = (Provider::start(), Latch::default());
    provider.script("m", vec![Act::text("Never.").held(0, &latch)]);
    let mut client = Client::new(&provider);
    client.say(&request(Dialect::Chat, "m", ""));
    eventually("it is under way", || provider.under_way("m") == 1);
    drop(client);
    assert!(provider.closed_within(Duration::from_secs(5)).is_some());
    assert_eq!(provider.under_way("m"), 0);
}

#[test]
fn only_connections_on_which_nothing_is_answered_are_closed_as_idle() {
    let (provider, latch) = (Provider::start(), Latch::default());
    provider.script("quick", vec![Act::instant("Now.")]);
    provider.script("held", vec![Act::text("Later.").held(0, &latch)]);
    let (mut idle, mut busy) = (Client::new(&provider), Client::new(&provider));
    idle.ask(Dialect::Chat, "quick", "");
    busy.say(&request(Dialect::Chat, "held", ""));
    eventually("one is under way", || provider.under_way("held") == 1);
    eventually("the other is closed", || {
        provider.close_idle();
        provider.open_sockets() == 1
    });
    assert!(is_closed(&mut idle));
    latch.lift();
    assert!(busy.hear().is_whole);
}

#[test]
fn a_used_connection_is_hung_up_on_as_often_as_asked_and_the_request_is_not_seen() {
    let provider = Provider::start();
    provider.script("m", vec![Act::instant("Now.")]);
    provider.hang_up(1);
    let mut client = Client::new(&provider);
    assert_eq!(client.ask(Dialect::Chat, "m", "").status, 200, "the first over a connection is answered");
    client.say(&request(Dialect::Chat, "m", ""));
    assert!(is_closed(&mut client));
    assert_eq!(provider.request_count(), 1);
    let mut another = Client::new(&provider);
    for _ in 0..2 {
        assert_eq!(another.ask(Dialect::Chat, "m", "").status, 200);
    }
}
