//! Knows which parts of an answer a layout has used.
//!
//! A layout sees the answer through these nodes. Looking at a text, number or truth value uses it up, and so does
//! giving a value to a function that writes it out; what was never looked at is what is left. Never changes the order
//! of keys.

use minijinja::value::{Enumerator, Object, ObjectRepr};
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A part of an answer.
#[derive(Debug)]
pub(super) struct Node {
    used: AtomicBool,
    part: Part,
}

#[derive(Debug)]
enum Part {
    Plain(Value),
    List(Vec<Arc<Node>>),
    Object(Vec<(String, Arc<Node>)>),
}

impl Node {
    /// Takes an answer apart; it must not be nested deeply.
    pub(super) fn of(value: &Value) -> Arc<Self> {
        Self::new(match value {
            Value::Array(items) => Part::List(items.iter().map(Self::of).collect()),
            Value::Object(fields) => {
                Part::Object(fields.iter().map(|(key, value)| (key.clone(), Self::of(value))).collect())
            }
            plain => Part::Plain(plain.clone()),
        })
    }

    fn new(part: Part) -> Arc<Self> {
        Arc::new(Self { used: AtomicBool::new(false), part })
    }

    /// The node behind a value of the template engine.
    pub(super) fn behind(value: &minijinja::Value) -> Option<Arc<Node>> {
        value.downcast_object::<Node>()
    }

    /// What the template engine sees of it; a plain value is used up by that.
    fn seen(self: &Arc<Self>) -> minijinja::Value {
        match &self.part {
            Part::Plain(value) => {
                self.used.store(true, Ordering::Relaxed);
                minijinja::Value::from_serialize(value)
            }
            _ => minijinja::Value::from_dyn_object(self.clone()),
        }
    }

    /// A member, without using it.
    pub(super) fn member(&self, key: &str) -> Option<&Arc<Node>> {
        match &self.part {
            Part::Object(fields) => fields.iter().find(|(name, _)| name == key).map(|(_, node)| node),
            _ => None,
        }
    }

    /// The whole value, all of it used from now on.
    pub(super) fn take(&self) -> Value {
        self.used.store(true, Ordering::Relaxed);
        match &self.part {
            Part::Plain(value) => value.clone(),
            Part::List(items) => items.iter().map(|item| item.take()).collect(),
            Part::Object(fields) => {
                Value::Object(fields.iter().map(|(key, node)| (key.clone(), node.take())).collect())
            }
        }
    }

    /// The value without using it.
    pub(super) fn look(&self) -> Value {
        match &self.part {
            Part::Plain(value) => value.clone(),
            Part::List(items) => items.iter().map(|item| item.look()).collect(),
            Part::Object(fields) => {
                Value::Object(fields.iter().map(|(key, node)| (key.clone(), node.look())).collect())
            }
        }
    }

    /// What has not been used, all of it used from now on.
    pub(super) fn take_rest(&self) -> Option<Value> {
        match &self.part {
            Part::Plain(value) => (!self.used.swap(true, Ordering::Relaxed)).then(|| value.clone()),
            Part::List(items) => {
                let left: Vec<Value> = items.iter().filter_map(|item| item.take_rest()).collect();
                (!left.is_empty()).then_some(Value::Array(left))
            }
            Part::Object(fields) => {
                let left = fields.iter().filter_map(|(key, node)| Some((key.clone(), node.take_rest()?)));
                let left: Map<String, Value> = left.collect();
                (!left.is_empty()).then_some(Value::Object(left))
            }
        }
    }

    /// The objects of a list, so that a layout can go through them whatever they are: what is no object becomes one
    /// with a nameless member, and objects that are keyed by their names get these as a member.
    pub(super) fn records(self: &Arc<Self>) -> Vec<Arc<Node>> {
        match &self.part {
            Part::List(items) => items.iter().map(|item| item.as_record()).collect(),
            Part::Object(fields)
                if !fields.is_empty() && fields.iter().all(|(_, node)| matches!(node.part, Part::Object(_))) =>
            {
                let named = |(key, node): &(String, Arc<Node>)| {
                    let Part::Object(inner) = &node.part else { return node.clone() };
                    let name = ("name".to_owned(), Node::of(&Value::String(super::words::title(key))));
                    Self::new(Part::Object(std::iter::once(name).chain(inner.iter().cloned()).collect()))
                };
                fields.iter().map(named).collect()
            }
            _ => vec![self.as_record()],
        }
    }

    fn as_record(self: &Arc<Self>) -> Arc<Node> {
        match self.part {
            Part::Object(_) => self.clone(),
            _ => Self::new(Part::Object(vec![(String::new(), self.clone())])),
        }
    }
}

impl Object for Node {
    fn repr(self: &Arc<Self>) -> ObjectRepr {
        match self.part {
            Part::Plain(_) => ObjectRepr::Plain,
            Part::List(_) => ObjectRepr::Seq,
            Part::Object(_) => ObjectRepr::Map,
        }
    }

    fn get_value(self: &Arc<Self>, key: &minijinja::Value) -> Option<minijinja::Value> {
        match &self.part {
            Part::Plain(_) => None,
            Part::List(items) => items.get(key.as_usize()?).map(Node::seen),
            Part::Object(_) => self.member(key.as_str()?).map(Node::seen),
        }
    }

    fn enumerate(self: &Arc<Self>) -> Enumerator {
        match &self.part {
            Part::Plain(_) => Enumerator::NonEnumerable,
            Part::List(items) => Enumerator::Seq(items.len()),
            Part::Object(fields) => Enumerator::Values(fields.iter().map(|(key, _)| key.as_str().into()).collect()),
        }
    }
}
