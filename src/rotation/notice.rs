//! What a step tells people: an Event, and the log line with it.

use crate::{
    api::{
        events::{Kind, Lasting, Reason},
        meta::Meta,
    },
    schedule::findings::Finding,
};

/// The object that a notice is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Regarding {
    /// `NodePool` or `NodeClaim`.
    pub kind: &'static str,
    /// Its name.
    pub name: String,
    /// Its UID; empty where the object is gone.
    pub uid: String,
}

impl Regarding {
    /// A NodePool.
    pub fn pool(meta: &Meta) -> Self {
        Self { kind: "NodePool", name: meta.name.clone(), uid: meta.uid.clone() }
    }

    /// A NodeClaim.
    pub fn claim(meta: &Meta) -> Self {
        Self { kind: "NodeClaim", name: meta.name.clone(), uid: meta.uid.clone() }
    }
}

/// One thing to tell.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Notice {
    /// About what.
    pub regarding: Regarding,
    /// The pool whose step tells it.
    pub pool: String,
    /// The Event's reason.
    pub reason: &'static str,
    /// Normal or Warning.
    pub kind: Kind,
    /// A moment, or a state that lasts.
    pub lasting: Lasting,
    /// What distinguishes conditions of the same reason on the same object, such as an annotation key; may be empty.
    pub subject: String,
    /// For people, with the numbers and what to do.
    pub message: String,
}

impl Notice {
    /// A notice with one of our reasons.
    pub fn new(reason: Reason, regarding: Regarding, pool: &str, message: String) -> Self {
        let about = reason.about();
        Self { regarding, pool: pool.into(), reason: about.name, kind: about.kind, lasting: about.lasting, subject: String::new(), message }
    }

    /// That a policy is wrong on this pool.
    pub fn of_finding(finding: &Finding, pool: &Meta) -> Self {
        Self {
            regarding: Regarding::pool(pool),
            pool: pool.name.clone(),
            reason: finding.code.name(),
            kind: Kind::Warning,
            lasting: Lasting::Condition,
            subject: String::new(),
            message: finding.message.clone(),
        }
    }

    /// The same, about one subject.
    pub fn on(mut self, subject: impl Into<String>) -> Self {
        self.subject = subject.into();
        self
    }
}
