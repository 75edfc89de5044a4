//! What a claimer knows of providers, models and cooldowns: read when it has changed, and cached.

use super::query;
use crate::error::Error;
use dialectic_core::cooldown::Availability;
use dialectic_core::limits::Allowance;
use dialectic_core::provider::Provider;
use dialectic_core::provider::traits::Manner;
use dialectic_core::tokens::{Measure, Ratio};
use pgrx::JsonB;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

const CATALOG: &str = "select model, provider, api, base_url, manner, secret, api_model, context_window, \
     max_output_tokens, settings, \
     fallback, model_concurrency, model_requests, model_tokens, provider_concurrency, provider_requests, \
     provider_tokens, tokenizer, \
     factor, samples, is_chat \
     from dialectic._catalog()";
const LEARN: &str = "select dialectic._learn_ratios($1, $2, $3)";
const COOLDOWNS: &str = "select provider, model, seconds, is_paused, has_open_circuit from dialectic._cooldowns()";
const CLOSED: &str = "select model from dialectic._closed_models";
const FLUSH: &str = "select (dialectic.get_config('partial_flush_seconds') #>> '{}')::double precision as seconds";

/// A model as the catalog has it now.
#[derive(Debug)]
pub(crate) struct Model {
    pub(crate) name: String,
    pub(crate) provider: Arc<Provider>,
    pub(crate) api_model: String,
    /// Whether it answers; otherwise it embeds texts.
    pub(crate) is_chat: bool,
    pub(crate) context_window: u64,
    pub(crate) max_output_tokens: u64,
    pub(crate) settings: serde_json::Value,
    /// How its tokens are counted.
    pub(crate) measure: Measure,
    /// Who answers in its place when its provider cannot.
    pub(crate) fallback: Option<String>,
    pub(crate) allowance: Allowance,
}

impl Model {
    /// Whether its tokens are limited, and so have to be counted.
    pub(crate) fn is_counted(&self) -> bool {
        self.allowance.tokens_per_minute.is_some() || self.provider.allowance.tokens_per_minute.is_some()
    }
}

/// All models by name.
#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) models: HashMap<String, Arc<Model>>,
    /// How often what is being said is put down.
    pub(crate) flush_every: Duration,
}

/// The cooldown of a provider, or of one of its models.
#[derive(Debug)]
pub(crate) struct Cooldown {
    pub(crate) provider: String,
    /// Empty for all models of the provider.
    pub(crate) model: String,
    pub(crate) availability: Availability,
}

/// Reads the catalog.
pub(crate) fn read() -> Result<Catalog, Error> {
    let mut providers: HashMap<String, Arc<Provider>> = HashMap::new();
    let rows = query(CATALOG, &[], |row| {
        let number = |column| Ok::<_, Error>(row.nullable::<i32>(column)?.and_then(|n| u32::try_from(n).ok()));
        let of_model = Allowance {
            concurrency: number("model_concurrency")?,
            requests_per_minute: number("model_requests")?,
            tokens_per_minute: number("model_tokens")?,
        };
        let of_provider = Allowance {
            concurrency: number("provider_concurrency")?,
            requests_per_minute: number("provider_requests")?,
            tokens_per_minute: number("provider_tokens")?,
        };
        let name: String = row.get("provider")?;
        let provider = match providers.get(&name) {
            Some(provider) => Arc::clone(provider),
            None => {
                // What cannot be read was checked by an older version; the defaults will do.
                let manner = Manner::read(&row.get::<JsonB>("manner")?.0).unwrap_or_default();
                let provider = Arc::new(Provider {
                    name: name.clone(),
                    api: row.get("api")?,
                    base_url: row.get("base_url")?,
                    manner,
                    secret: row.nullable("secret")?,
                    allowance: of_provider,
                });
                providers.insert(name, Arc::clone(&provider));
                provider
            }
        };
        let api_model: String = row.get("api_model")?;
        let samples = u32::try_from(row.nullable::<i32>("samples")?.unwrap_or(0)).unwrap_or(0);
        let learned = row.nullable::<f64>("factor")?.map(|factor| Ratio::new(factor, samples));
        Ok(Arc::new(Model {
            name: row.get("model")?,
            provider,
            measure: Measure::new(row.get("tokenizer")?, &api_model, learned),
            api_model,
            is_chat: row.get("is_chat")?,
            context_window: u64::try_from(row.get::<i64>("context_window")?).unwrap_or(0),
            max_output_tokens: u64::try_from(row.get::<i64>("max_output_tokens")?).unwrap_or(0),
            settings: row.get::<JsonB>("settings")?.0,
            fallback: row.nullable("fallback")?,
            allowance: of_model,
        }))
    })?;
    let flush = query(FLUSH, &[], |row| row.nullable::<f64>("seconds"))?.into_iter().next().flatten();
    let models = rows.into_iter().map(|model| (model.name.clone(), model)).collect();
    Ok(Catalog { models, flush_every: flush.and_then(|s| Duration::try_from_secs_f64(s).ok()).unwrap_or_default() })
}

/// Keeps what was learned of the tokens of models.
pub(crate) fn learn(ratios: &HashMap<String, Ratio>) -> Result<(), Error> {
    if ratios.is_empty() {
        return Ok(());
    }
    let (mut models, mut factors, mut samples) = (Vec::new(), Vec::new(), Vec::new());
    for (model, ratio) in ratios {
        models.push(model.as_str());
        factors.push(ratio.factor());
        samples.push(i32::try_from(ratio.samples()).unwrap_or(i32::MAX));
    }
    query(LEARN, &[models.into(), factors.into(), samples.into()], |_| Ok(())).map(drop)
}

/// Reads the cooldowns; a provider without one may be called.
pub(crate) fn cooldowns() -> Result<Vec<Cooldown>, Error> {
    query(COOLDOWNS, &[], |row| {
        let pause = row.nullable::<f64>("seconds")?.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let availability = Availability {
            is_paused: row.get("is_paused")?,
            has_open_circuit: row.get("has_open_circuit")?,
            pause: pause.unwrap_or_default(),
        };
        Ok(Cooldown { provider: row.get("provider")?, model: row.get("model")?, availability })
    })
}

/// The models that no call is made for now.
pub(crate) fn closed_models() -> Result<Vec<String>, Error> {
    query(CLOSED, &[], |row| row.get("model"))
}
