//! Reads the body of a successful response: bytes to the core's reader, text to the transcript and the partial text.
//!
//! Enforces the limits of the provider's settings: size, time to the first byte, silence between bytes.

use super::error_class::classify;
use super::transport::CurrentCall;
use super::{CallError, CallState, seconds};
use crate::cancel::CancelToken;
use crate::partial_text::PartialText;
use dialectic_core::provider::Class;
use dialectic_core::provider::dialect::Event;
use dialectic_core::provider::reader::Reader;
use dialectic_core::provider::redact::Redactor;
use dialectic_core::provider::traits::Manner;
use std::io::{ErrorKind, Read};
use std::time::{Duration, Instant};
use ureq::Body;
use ureq::http::Response;

/// Bytes that are read and written at a time.
pub(super) const BUFFER_BYTES: usize = 16 << 10;
/// How long the end of the stream may take after the model has finished.
const END_TIMEOUT: Duration = Duration::from_secs(2);

/// Everything that reading one response needs.
pub(super) struct ResponseReader<'a> {
    pub(super) state: &'a mut CallState,
    pub(super) partial_text: &'a PartialText,
    pub(super) settings: &'a Manner,
    pub(super) current: &'a CurrentCall,
    pub(super) cancel: &'a CancelToken,
}

/// Why reading ended.
enum End {
    /// The stream ended, or the model had finished.
    Stream,
    TooLarge,
    Broken(ureq::Error),
}

impl ResponseReader<'_> {
    /// Reads a response to its end.
    pub(super) fn read(mut self, mut response: Response<Body>, mut reader: Reader) -> Result<(), CallError> {
        let source = response.body_mut().with_config().limit(u64::MAX).reader();
        let end = self.read_events(source, &mut reader);
        if matches!(end, End::TooLarge) {
            self.flush_redactor();
            let message = format!("the answer is larger than {} bytes", self.settings.max_response_bytes);
            return Err(CallError::new(Class::Transient, message));
        }
        for event in reader.end() {
            self.take(event);
        }
        self.flush_redactor();
        let error = match end {
            // A failure after the end of the answer loses nothing.
            _ if self.state.transcript.is_ended() => return Ok(()),
            End::Broken(error) => classify(&error, self.cancel, self.settings, true),
            _ if self.cancel.is_cancelled() => CallError::Cancelled,
            _ => return Ok(()),
        };
        self.state.transcript.cut();
        Err(error)
    }

    fn read_events(&mut self, mut source: impl Read, reader: &mut Reader) -> End {
        let mut buffer = [0u8; BUFFER_BYTES];
        let mut total = 0u64;
        let mut ended: Option<Instant> = None;
        self.current.set_read_timeout(seconds(self.settings.first_byte_seconds));
        loop {
            let count = match source.read(&mut buffer) {
                Ok(0) => return End::Stream,
                Ok(count) => count,
                Err(problem) if problem.kind() == ErrorKind::Interrupted => continue,
                Err(problem) => return End::Broken(problem.into()),
            };
            self.state.first_byte.get_or_insert_with(Instant::now);
            total += count as u64;
            if total > self.settings.max_response_bytes {
                return End::TooLarge;
            }
            for event in reader.push(&buffer[..count]) {
                self.take(event);
            }
            if !self.state.transcript.is_ended() {
                self.current.set_read_timeout(seconds(self.settings.silence_seconds));
            } else if ended.get_or_insert_with(Instant::now).elapsed() > END_TIMEOUT {
                return End::Stream;
            } else {
                self.current.set_read_timeout(END_TIMEOUT);
            }
        }
    }

    fn take(&mut self, event: Event) {
        let event = match (event, &mut self.state.redactor) {
            (Event::Text(text), Some(redactor)) => Event::Text(redactor.push(&text)),
            (event, _) => event,
        };
        if let Event::Text(text) = &event {
            self.partial_text.push(text);
        }
        self.state.transcript.take(event);
    }

    /// Takes the text that the redactor held back, because it could have been the beginning of the secret.
    fn flush_redactor(&mut self) {
        if let Some(rest) = self.state.redactor.as_mut().map(Redactor::end) {
            self.partial_text.push(&rest);
            self.state.transcript.take(Event::Text(rest));
        }
    }
}
