//! Decides how many requests are under way at once, and how many there ever were: of each model, and of all.
//!
//! A request is under way from the moment it is read until its last bytes are about to be written, so that a client that has
//! heard the end may ask again without being counted twice. Never touches a socket.

use super::locked;
use std::collections::HashMap;
use std::sync::Mutex;

/// Now and at most.
#[derive(Debug, Clone, Copy, Default)]
struct Count {
    now: usize,
    most: usize,
}

/// Counts requests by model; all of them together have no name.
#[derive(Debug, Default)]
pub(super) struct Gauge(Mutex<HashMap<String, Count>>);

/// A request that is under way for as long as this lives.
pub(super) struct UnderWay<'a> {
    gauge: &'a Gauge,
    model: String,
}

impl Gauge {
    pub(super) fn enter(&self, model: &str) -> UnderWay<'_> {
        let mut counts = locked(&self.0);
        for name in [model, ""] {
            let count = counts.entry(name.to_owned()).or_default();
            count.now += 1;
            count.most = count.most.max(count.now);
        }
        UnderWay { gauge: self, model: model.to_owned() }
    }

    pub(super) fn now(&self, model: &str) -> usize {
        locked(&self.0).get(model).map_or(0, |count| count.now)
    }

    pub(super) fn most(&self, model: &str) -> usize {
        locked(&self.0).get(model).map_or(0, |count| count.most)
    }

    /// What there was at most is what there is now.
    pub(super) fn reset(&self) {
        locked(&self.0).values_mut().for_each(|count| count.most = count.now);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let mut counts = locked(&self.gauge.0);
        for name in [self.model.as_str(), ""] {
            if let Some(count) = counts.get_mut(name) {
                count.now -= 1;
            }
        }
    }
}
