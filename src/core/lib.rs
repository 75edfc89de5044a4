//! The decisions of pg_dialectic as values and pure functions.
//!
//! Nothing here sees Postgres, a clock, a socket or a thread: whatever a function needs comes in as an argument,
//! whatever it decides goes out as a value. The extension around it moves rows and bytes.
//!
//! | module | decides |
//! |---|---|
//! | [`job`] | the statuses of a job and every legal move between them |
//! | [`queue`] | nothing that ships: a model of what each verb does to the jobs, which tests replay against the database |
//! | [`recipe`] | what a recipe is, and whether one is sound |
//! | [`plan`] | which jobs a step becomes, and what each is given |
//! | [`egress`] | which addresses may be called |
//! | [`explain`] | what a process will come to before it runs |
//! | [`histogram`] | how durations are counted so that their quantiles can be told |
//! | [`id`] | nothing: the type that tells ids from step keys, models and stages |
//! | [`job_prompt`] | the messages of a call, and whether they fit the context window |
//! | [`readiness`] | which steps of a stage may begin now |
//! | [`definition`] | a process as a session started with it, and what its prompts may say |
//! | [`prompt`] | how a template and its values become messages |
//! | [`provider`] | what a model is asked and what it answers; the simulator |
//! | [`json`] | what JSON stands in a text that a model wrote |
//! | [`knit`] | how the chunks of an answer that was cut off become one text |
//! | [`memory`] | how a text becomes chunks, and which chunks answer a query |
//! | [`context`] | whether a prompt fits, and how what does not is cut into groups |
//! | [`answer`] | what of an answer is what a step asked for |
//! | [`render`] | how an answer becomes a Markdown document |
//! | [`structure`] | where a text is cut into parts |
//! | [`tokens`] | how many tokens a text is, for each model |
//! | [`retry`] | when a failed attempt is tried again |
//! | [`limits`] | when the next call to a provider or a model may begin |
//! | [`money`] | which calls may begin for the money there is, and what each is charged |
//! | [`cooldown`] | how long a provider is not called, and which model answers meanwhile |
//! | [`breaker`] | when a provider that keeps failing is left alone, and for how long |
//! | [`path`] | where an artifact stands in the tree of files |
//! | [`percent`] | which characters a URL writes as `%XX` |

pub mod answer;
pub mod breaker;
pub mod certificate;
pub mod context;
pub mod cooldown;
pub mod definition;
pub mod egress;
pub mod explain;
mod hash;
pub mod histogram;
pub mod id;
pub mod job;
pub mod job_prompt;
pub mod json;
pub mod knit;
pub mod limits;
pub mod memory;
pub mod money;
pub mod path;
pub mod percent;
pub mod plan;
pub mod prompt;
pub mod provider;
pub mod queue;
pub mod readiness;
pub mod recipe;
pub mod render;
pub mod retry;
pub mod structure;
pub mod tokens;
