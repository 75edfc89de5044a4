//! A provider on loopback, in the process of the bench, and how a database comes to know it.
//!
//! It shares the cores with what is measured: requests are not recorded and answers are made once. What stands for a machine
//! elsewhere can stand back behind the server (`aside`). Measures nothing.

use dialectic_tests::fake_provider::{Act, Provider};
use postgres::Client;

/// A provider that does the same with every request for one of these models.
pub(crate) fn provider(models: &[&str], act: &Act) -> Provider {
    let provider = Provider::start();
    provider.record(false);
    models.iter().for_each(|model| provider.script(model, vec![act.clone()]));
    provider
}

/// As `provider`, with threads that take the cores only when nobody else wants them.
pub(crate) fn aside(models: &[&str], act: &Act) -> Provider {
    let (models, act): (Vec<String>, Act) = (models.iter().map(|model| (*model).to_owned()).collect(), act.clone());
    let start = move || {
        // SAFETY: on Linux this is about the calling thread, and those it starts inherit it.
        unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 19) };
        provider(&models.iter().map(String::as_str).collect::<Vec<_>>(), &act)
    };
    std::thread::spawn(start).join().expect("a provider")
}

/// Adds the provider and these models of it.
pub(crate) fn add(client: &mut Client, provider: &Provider, models: &[&str]) {
    let address = provider.base_url("openai");
    client.execute("select dialectic.add_provider('loopback', 'openai', $1)", &[&address]).expect("a provider");
    for model in models {
        client
            .execute("select dialectic.add_model($1, 'loopback', input_price => 1.25, output_price => 10)", &[model])
            .expect("a model");
    }
}
