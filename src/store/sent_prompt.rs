//! The messages that calls have sent, put together from what is stored of them, and how many tokens they have.

use super::definition::definition;
use super::{Row, query, readable};
use crate::error::Error;
use dialectic_core::definition::{Definition, so_far};
use dialectic_core::prompt::{Message, Role};
use dialectic_core::recipe::Makes;
use dialectic_core::tokens::{Measure, Ratio};
use pgrx::Uuid;
use std::sync::Arc;

const OF_CLAIM: &str = "select * from dialectic._sent_prompts(array[$1], array[$2])";
const OF_LOST: &str = "select * from dialectic._lost_prompts($1)";

/// What a call sent, and what is known of it.
pub(crate) struct SentPrompt {
    /// None where no call was opened.
    pub(crate) call: Option<Uuid>,
    definition: Option<Arc<Definition>>,
    stage: String,
    step_key: String,
    is_combine: bool,
    /// The stored prompt, as JSON.
    turn: Option<String>,
    /// What stood behind it, chunk by chunk.
    chunks: Vec<String>,
    /// What asked for more, as JSON.
    directive: Option<String>,
    streamed: Option<String>,
    measure: Measure,
}

/// What the call of a claim sent; none where the job is deleted. Without a claim, what would be sent again.
pub(crate) fn of_claim(job: Uuid, claim_id: Option<i64>) -> Result<Option<SentPrompt>, Error> {
    Ok(query(OF_CLAIM, &[job.into(), claim_id.into()], read)?.into_iter().next())
}

/// What calls sent whose claimer died.
pub(crate) fn of_lost(calls: Vec<Uuid>) -> Result<Vec<SentPrompt>, Error> {
    query(OF_LOST, &[calls.into()], read)
}

fn read(row: &Row) -> Result<SentPrompt, Error> {
    let directive: Option<String> = row.nullable("directive")?;
    // Only a continuation needs the definition, to show the model what it wrote so far. Where it cannot be read, the
    // chunks are joined as plain text: a call must be closed and settled all the same.
    let definition = match directive {
        Some(_) => readable(definition(row.get("definition_id")?))?.ok(),
        None => None,
    };
    let samples = u32::try_from(row.nullable::<i32>("samples")?.unwrap_or(0)).unwrap_or(0);
    let learned = row.nullable::<f64>("factor")?.map(|factor| Ratio::new(factor, samples));
    Ok(SentPrompt {
        call: row.nullable("call_id")?,
        definition,
        stage: row.nullable("stage")?.unwrap_or_default(),
        step_key: row.nullable("step_key")?.unwrap_or_default(),
        is_combine: row.get("is_combine")?,
        turn: row.nullable("turn")?,
        chunks: row.nullable("chunks")?.unwrap_or_default(),
        directive,
        streamed: row.nullable("streamed")?,
        measure: Measure::new(row.get("tokenizer")?, row.get("api_model")?, learned),
    })
}

impl SentPrompt {
    /// All messages; none before there is a prompt.
    pub(crate) fn messages(&self) -> Result<Option<Vec<Message>>, Error> {
        let unreadable =
            |problem: serde_json::Error| Error::Unreadable(format!("the saved prompt cannot be read: {problem}"));
        let Some(turn) = &self.turn else { return Ok(None) };
        let mut messages: Vec<Message> = serde_json::from_str(turn).map_err(unreadable)?;
        if let Some(directive) = &self.directive {
            messages.push(Message { role: Role::Assistant, content: self.so_far() });
            messages.extend(serde_json::from_str::<Vec<Message>>(directive).map_err(unreadable)?);
        }
        Ok(Some(messages))
    }

    fn so_far(&self) -> String {
        let step = self.definition.as_ref().and_then(|definition| definition.step(&self.stage, &self.step_key));
        let step = step.filter(|step| step.makes() != Makes::Text && !self.is_combine);
        let shape = step.and_then(|step| step.content_to_include.as_ref());
        let chunks: Vec<&str> = self.chunks.iter().map(String::as_str).collect();
        so_far(&chunks, shape, step.and_then(|step| step.document_key.as_deref()))
    }

    /// The tokens that were read; a prompt that cannot be read counts as none.
    pub(crate) fn input_tokens(&self) -> u64 {
        let messages = self.messages().ok().flatten();
        messages.map_or(0, |messages| self.measure.messages(&messages))
    }

    /// The tokens of what was streamed.
    pub(crate) fn streamed_tokens(&self) -> u64 {
        self.streamed.as_deref().map_or(0, |text| self.text_tokens(text))
    }

    /// The tokens of a text, as its model counts them.
    pub(crate) fn text_tokens(&self, text: &str) -> u64 {
        self.measure.text(text)
    }
}
