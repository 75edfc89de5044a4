//! A secret that cannot be had is a matter of configuration: the provider pauses with a reason that shows nothing of it. One that can
//! is read anew for every call.

use crate::ground::*;
use dialectic_tests::fake_provider::{Act, Provider};
use dialectic_tests::*;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::PathBuf;

/// A folder that the server can read, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = PathBuf::from(format!("/tmp/dialectic-law-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("secrets")).expect("a folder");
        for folder in [path.clone(), path.join("secrets")] {
            std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755)).expect("permissions");
        }
        Folder(path)
    }

    fn write(&self, name: &str, content: &str) {
        std::fs::write(self.0.join(name), content).expect("a file");
        std::fs::set_permissions(self.0.join(name), std::fs::Permissions::from_mode(0o644)).expect("permissions");
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_secret_that_cannot_be_had_pauses_the_provider_with_a_reason_that_shows_nothing_of_it() {
    const HIDDEN: [&str; 4] = ["Outside-content", "First-line", "Second-line", "With space"];
    let (folder, provider) = (Folder::new("bad"), Provider::start());
    folder.write("outside", "Outside-content");
    folder.write("secrets/lines", "First-line\nSecond-line\n");
    folder.write("secrets/space", "With space");
    folder.write("secrets/empty", "\n");
    let root = folder.0.display();
    symlink(folder.0.join("outside"), folder.0.join("secrets/link")).expect("a link");
    std::fs::create_dir(folder.0.join("secrets/folder")).expect("a folder");
    let configuration = format!("{LOOPBACK}\ndialectic.secret_prefixes = 'env:LAW_, file:{root}/secrets/'");
    let (server, mut client) = own(&configuration, &[("LAW_EMPTY", "")]);
    let file = |name: &str| format!("file:{root}/secrets/{name}");
    let bad = [
        ("env:LAW_NONE".to_owned(), "has no variable for the secret"),
        ("env:LAW_EMPTY".to_owned(), "is empty"),
        (file("none"), "cannot be read"),
        (file("link"), "leads out of dialectic.secret_prefixes"),
        (file("lines"), "has characters that cannot be sent"),
        (file("space"), "has characters that cannot be sent"),
        (file("empty"), "is empty"),
        (file("folder"), "is no file"),
    ];
    for (number, (reference, problem)) in bad.iter().enumerate() {
        let name = format!("bad-{number}");
        provider.script(&name, vec![Act::text("Mended.")]);
        chat(&mut client, &name, &provider, &format!(", secret => '{reference}'"));
        let session = calls(&mut client, &name, 2);
        worked(&mut client);
        let messages: Vec<String> = column(
            &mut client,
            "select distinct concat_ws(' ', outcome, error_class, http_status, error_message) from dialectic.model_calls where session_id = $1",
            &[&session],
        );
        assert_eq!(messages.len(), 1, "{reference}: {messages:?}");
        assert!(
            messages[0].starts_with("failed configuration ") && messages[0].contains(problem),
            "{reference}: {messages:?}"
        );
        let place = reference.split_once(':').map_or("", |(_, place)| place);
        assert!(!messages[0].contains(place), "where it is concerns nobody: {messages:?}");
        assert_eq!(jobs(&mut client, session), ["2 pending 0"], "{reference}");
        let cause: Vec<String> = column(
            &mut client,
            "select distinct cause from dialectic.blocked where session_id = $1 and kind = 'execute'",
            &[&session],
        );
        assert!(cause.len() == 1 && cause[0].starts_with(&format!("provider {name} is paused: ")), "{cause:?}");
        assert_eq!(
            provider.requests().iter().filter(|seen| seen.model == name).count(),
            0,
            "{reference}: it was not called"
        );
    }
    let (dump, log) = (server.dump("law"), server.log());
    for content in HIDDEN {
        assert!(!dump.contains(content) && !log.contains(content), "{content} is shown");
    }
    assert_sound(&mut client);
}

#[test]
fn a_file_that_changes_is_read_anew_for_every_call() {
    let (folder, provider) = (Folder::new("turning"), Provider::start());
    let root = folder.0.display();
    let configuration = format!("{LOOPBACK}\ndialectic.secret_prefixes = 'file:{root}/secrets/'");
    let (_server, mut client) = own(&configuration, &[]);
    provider.script("turning", vec![Act::text("Open.")]);
    chat(&mut client, "turning", &provider, &format!(", secret => 'file:{root}/secrets/key'"));
    for secret in ["first-key", "second-key"] {
        folder.write("secrets/key", secret);
        calls(&mut client, "turning", 1);
        worked(&mut client);
    }
    let given: Vec<Option<String>> =
        provider.requests().iter().map(|seen| seen.header("authorization").map(str::to_owned)).collect();
    assert_eq!(given, ["Bearer first-key", "Bearer second-key"].map(|header| Some(header.to_owned())));
}

#[test]
fn reference_outside_of_the_prefixes_pauses_its_provider() {
    let provider = Provider::start();
    let (_server, mut client) =
        own(LOOPBACK, &[("OPENAI_API_KEY", "Hidden-key"), ("DIALECTIC_LAW_KEY", "Renamed-key")]);
    provider.script("outside", vec![Act::text("Open.")]);
    chat(&mut client, "outside", &provider, "");
    refused_with(
        &mut client,
        "select dialectic.set_secret('outside', 'env:OPENAI_API_KEY')",
        &[],
        "22023",
        "not allowed",
    );
    // As it was stored when the prefixes were others.
    client
        .batch_execute("insert into dialectic.secrets (provider, reference) values ('outside', 'env:OPENAI_API_KEY')")
        .expect("an older reference");
    let session = calls(&mut client, "outside", 1);
    worked(&mut client);
    assert_eq!(provider.requests().len(), 0);
    let cause: String =
        one(&mut client, "select cause from dialectic.blocked where session_id = $1 and kind = 'execute'", &[&session]);
    let problems: String = one(&mut client, "select problems::text from dialectic.health()", &[]);
    for text in [&cause, &problems] {
        assert!(text.contains("dialectic.secret_prefixes (env:DIALECTIC_, file:/run/secrets/)"), "{text}");
        assert!(text.contains("rename the variable") && text.contains("dialectic.set_secret("), "{text}");
        assert!(!text.contains("OPENAI_API_KEY"), "where it is concerns nobody: {text}");
    }
    client.execute("select dialectic.set_secret('outside', 'env:DIALECTIC_LAW_KEY')", &[]).expect("what it says");
    worked(&mut client);
    assert_eq!(jobs(&mut client, session), ["1 completed 1"]);
    assert_eq!(provider.requests()[0].header("authorization"), Some("Bearer Renamed-key"));
}
